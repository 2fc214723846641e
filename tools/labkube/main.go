// Command labkube is a small Kubernetes for a lab where k3s can't be had: the
// control plane, the node's parts, an etcd and kubectl in one static binary.
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts are the programs within this one. Each runs as a process of its own, by
// the name that it is called with, as their metrics and flags are global.
var parts = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if parts[name] == nil && len(os.Args) > 1 && parts[os.Args[1]] != nil {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	if part := parts[name]; part != nil {
		if name == "kubectl" {
			if err := cli.RunNoErrOutput(part()); err != nil { // it has printed its error
				os.Exit(1)
			}
			return
		}
		os.Exit(cli.Run(part()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetFlags(0) // the journal has the time
	log.SetPrefix("labkube: ")
	root := &cobra.Command{
		Use: "labkube", Short: "A small Kubernetes for a lab where k3s can't be had", SilenceUsage: true, SilenceErrors: true,
		Long: "A small Kubernetes for a lab where k3s can't be had.\n\nIts parts are commands too: " + strings.Join(slices.Sorted(maps.Keys(parts)), ", ") + ".",
	}
	root.AddCommand(newServerCommand(), newAgentCommand(), newImportCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "labkube:", err)
		os.Exit(1)
	}
}
