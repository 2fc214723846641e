// Package remote implements command:remote:Command and command:remote:CopyToRemote.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	provider "github.com/pulumi/pulumi-go-provider"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Connection says how to reach a machine by SSH.
type Connection struct {
	Host               string           `pulumi:"host"`
	Port               *float64         `pulumi:"port,optional"`
	User               *string          `pulumi:"user,optional"`
	Password           *string          `pulumi:"password,optional" provider:"secret"`
	PrivateKey         *string          `pulumi:"privateKey,optional" provider:"secret"`
	PrivateKeyPassword *string          `pulumi:"privateKeyPassword,optional" provider:"secret"`
	AgentSocketPath    *string          `pulumi:"agentSocketPath,optional"`
	HostKey            *string          `pulumi:"hostKey,optional"`
	DialErrorLimit     *int             `pulumi:"dialErrorLimit,optional"`
	PerDialTimeout     *int             `pulumi:"perDialTimeout,optional"`
	Proxy              *ProxyConnection `pulumi:"proxy,optional"`
}

// ProxyConnection is the hop before a connection.
type ProxyConnection struct {
	Host               string   `pulumi:"host"`
	Port               *float64 `pulumi:"port,optional"`
	User               *string  `pulumi:"user,optional"`
	Password           *string  `pulumi:"password,optional" provider:"secret"`
	PrivateKey         *string  `pulumi:"privateKey,optional" provider:"secret"`
	PrivateKeyPassword *string  `pulumi:"privateKeyPassword,optional" provider:"secret"`
	AgentSocketPath    *string  `pulumi:"agentSocketPath,optional"`
	HostKey            *string  `pulumi:"hostKey,optional"`
	DialErrorLimit     *int     `pulumi:"dialErrorLimit,optional"`
	PerDialTimeout     *int     `pulumi:"perDialTimeout,optional"`
}

func (p ProxyConnection) connection() Connection {
	return Connection{p.Host, p.Port, p.User, p.Password, p.PrivateKey, p.PrivateKeyPassword, p.AgentSocketPath, p.HostKey, p.DialErrorLimit, p.PerDialTimeout, nil}
}

// Defaults of the official plugin.
const (
	defaultDialErrorLimit = 10
	defaultPerDialTimeout = 15 // seconds
	maxDialDelay          = 10 * time.Second
)

// dialDelay is the wait before the second try; a test shortens it.
var dialDelay = time.Second

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (c Connection) address() string {
	return net.JoinHostPort(c.Host, strconv.Itoa(int(or(c.Port, 22))))
}

func (c Connection) config() (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{
		User:            or(c.User, "root"),
		Timeout:         time.Duration(or(c.PerDialTimeout, defaultPerDialTimeout)) * time.Second,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	if c.HostKey != nil && *c.HostKey != "" {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(*c.HostKey))
		if err != nil {
			return nil, fmt.Errorf("hostKey of %s: %w", c.Host, err)
		}
		config.HostKeyCallback = ssh.FixedHostKey(key)
		config.HostKeyAlgorithms = []string{key.Type()}
	}
	if c.PrivateKey != nil && *c.PrivateKey != "" {
		parse := ssh.ParsePrivateKey
		if c.PrivateKeyPassword != nil && *c.PrivateKeyPassword != "" {
			parse = func(pem []byte) (ssh.Signer, error) {
				return ssh.ParsePrivateKeyWithPassphrase(pem, []byte(*c.PrivateKeyPassword))
			}
		}
		signer, err := parse([]byte(*c.PrivateKey))
		if err != nil {
			return nil, fmt.Errorf("privateKey for %s: %w", c.Host, err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if c.Password != nil && *c.Password != "" {
		config.Auth = append(config.Auth, ssh.Password(*c.Password))
	}
	if socket := or(c.AgentSocketPath, os.Getenv("SSH_AUTH_SOCK")); socket != "" && len(config.Auth) == 0 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, fmt.Errorf("SSH agent: %w", err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeysCallback(agent.NewClient(conn).Signers))
	}
	return config, nil
}

// dial connects, through the proxy if there is one, trying again with a growing
// delay until the limit of errors is reached (-1: without limit).
func (c Connection) dial(ctx context.Context) (*ssh.Client, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	if c.Proxy == nil {
		return c.retry(ctx, func() (*ssh.Client, error) { return ssh.Dial("tcp", c.address(), config) })
	}
	hop, err := c.Proxy.connection().dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	client, err := c.retry(ctx, func() (*ssh.Client, error) {
		conn, err := hop.DialContext(ctx, "tcp", c.address())
		if err != nil {
			return nil, err
		}
		inner, channels, requests, err := ssh.NewClientConn(conn, c.address(), config)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return ssh.NewClient(inner, channels, requests), nil
	})
	if err != nil {
		return nil, errors.Join(err, hop.Close())
	}
	go func() {
		_ = client.Wait()
		_ = hop.Close()
	}()
	return client, nil
}

func (c Connection) retry(ctx context.Context, connect func() (*ssh.Client, error)) (*ssh.Client, error) {
	limit := or(c.DialErrorLimit, defaultDialErrorLimit)
	delay := dialDelay
	for try := 1; ; try++ {
		client, err := connect()
		if err == nil {
			return client, nil
		}
		if limit >= 0 && try > limit {
			return nil, fmt.Errorf("connect to %s: %w (after %d tries)", c.address(), err, try)
		}
		provider.GetLogger(ctx).InfoStatusf("connect to %s: %v; try %d", c.address(), err, try+1)
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(delay):
		}
		delay = min(delay*3/2, maxDialDelay)
	}
}
