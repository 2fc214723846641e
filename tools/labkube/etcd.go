package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdStart bounds the recovery of a store after a crash.
const etcdStart = 60 * time.Second

// newEtcdCommand is a store of one member, for this machine's API server only.
func newEtcdCommand() *cobra.Command {
	var dir, client, peer string
	cmd := &cobra.Command{
		Use:           "etcd",
		Short:         "Store the cluster's state",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			c := embed.NewConfig()
			c.Dir, c.LogLevel = dir, "warn"
			c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration // else each request is one
			c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
			for _, listen := range []struct {
				text string
				urls []*[]url.URL
			}{
				{client, []*[]url.URL{&c.ListenClientUrls, &c.AdvertiseClientUrls}},
				{peer, []*[]url.URL{&c.ListenPeerUrls, &c.AdvertisePeerUrls}},
			} {
				u, err := url.Parse(listen.text)
				if err != nil {
					return err
				}
				for _, at := range listen.urls {
					*at = []url.URL{*u}
				}
			}
			c.InitialCluster = c.InitialClusterFromName(c.Name)
			e, err := embed.StartEtcd(c)
			if err != nil {
				return fmt.Errorf("start etcd in %s: %w", dir, err)
			}
			defer e.Close()
			select {
			case <-e.Server.ReadyNotify():
			case <-time.After(etcdStart):
				return errors.New("etcd is not ready after a minute")
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			select {
			case <-ctx.Done():
				return nil
			case err := <-e.Err():
				return err
			}
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "etcd", "folder of the store")
	cmd.Flags().StringVar(&client, "listen-client-url", "http://127.0.0.1:2379", "URL for the API server")
	cmd.Flags().StringVar(&peer, "listen-peer-url", "http://127.0.0.1:2380", "URL for other members")
	return cmd
}
