package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"lab/hops"
)

// dialPatience is how long a host may take to let one in.
const dialPatience = 15 * time.Second

// runOn runs a command on a host, which has to show the key that the stack has of
// it, and gives its standard output.
func runOn(ctx context.Context, h hops.Host, command, stdin string) (string, error) {
	signer, err := ssh.ParsePrivateKey([]byte(h.PrivateKey))
	if err != nil {
		return "", errors.New("the stack's key is none") // the error would quote it
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		return "", fmt.Errorf("the stack's host key of it: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	address := net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
	conn, err := (&net.Dialer{Timeout: dialPatience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(dialPatience)); err != nil {
		return "", err
	}
	link, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: h.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(hostKey),
		HostKeyAlgorithms: []string{hostKey.Type()},
	})
	if err != nil {
		return "", err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return "", err
	}
	client := ssh.NewClient(link, channels, requests)
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer session.Close()
	var stdout, stderr strings.Builder
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := session.Run(command); err != nil {
		return "", fmt.Errorf("%w %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
