package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/knftables"
)

// joinNetwork waits for the node's range of pod addresses, configures its bridge,
// and keeps the routes to the other nodes' pods.
func (c Config) joinNetwork(ctx context.Context) error {
	began := time.Now().Truncate(time.Second) // as the API has times
	if err := masquerade(ctx, c.ClusterCIDR); err != nil {
		return err
	}
	// Of kube-proxy: a kubelet may see no node but its own.
	config, err := clientcmd.BuildConfigFromFlags("", c.agentDir("kube-proxy.kubeconfig"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var node *corev1.Node
	err = until(ctx, readyPatience, 200*time.Millisecond, func() (err error) {
		node, err = client.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
		if err == nil && node.Spec.PodCIDR == "" {
			err = fmt.Errorf("node %s has no range of pod addresses yet", c.NodeName)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := writeRendered(c.agentDir("cni/10-labkube.conflist"), "10-labkube.conflist", 0o644, map[string]any{"PodCIDR": node.Spec.PodCIDR}); err != nil {
		return err
	}
	if err := c.followNodes(ctx, client); err != nil {
		return err
	}
	return until(ctx, readyPatience, 200*time.Millisecond, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return ready(node, began)
	})
}

// ready is nil when the node's kubelet said so since a time: the cluster remembers
// what an earlier one said.
func ready(node *corev1.Node, since time.Time) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && !condition.LastHeartbeatTime.Time.Before(since) {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("node %s is not ready: %s", node.Name, condition.Message)
		}
	}
	return fmt.Errorf("node %s has said nothing yet", node.Name)
}

// followNodes keeps a route to the pods of every other node, as long as ctx lasts.
func (c Config) followNodes(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Nodes().Informer()
	change := func(object any, apply func(*netlink.Route) error) {
		node, ok := object.(*corev1.Node)
		if !ok || node.Name == c.NodeName || node.Spec.PodCIDR == "" {
			return
		}
		r, err := routeTo(node)
		if err == nil {
			err = apply(r)
		}
		if err != nil {
			log.Printf("route to the pods of %s: %v", node.Name, err)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { change(o, netlink.RouteReplace) },
		UpdateFunc: func(_, o any) { change(o, netlink.RouteReplace) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			change(o, netlink.RouteDel)
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// routeTo is the route to a node's pods by its address.
func routeTo(node *corev1.Node) (*netlink.Route, error) {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return nil, err
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return &netlink.Route{Dst: pods, Gw: net.ParseIP(a.Address)}, nil
		}
	}
	return nil, fmt.Errorf("node %s has no address", node.Name)
}

// masquerade has what pods send out of the cluster come from the node: nobody
// outside knows a way back to a pod's address.
func masquerade(ctx context.Context, clusterCIDR string) error {
	nft, err := knftables.New(knftables.IPv4Family, "labkube")
	if err != nil {
		return fmt.Errorf("nftables: %w; install the package nftables", err)
	}
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Chain{
		Name: "postrouting", Type: knftables.PtrTo(knftables.NATType),
		Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
	})
	tx.Flush(&knftables.Chain{Name: "postrouting"})
	tx.Add(&knftables.Rule{Chain: "postrouting", Rule: knftables.Concat("ip saddr", clusterCIDR, "ip daddr !=", clusterCIDR, "masquerade")})
	return nft.Run(ctx, tx)
}
