package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// sshServer runs commands with sh on a loopback port, for one user key.
type sshServer struct {
	connection Connection // reaches it, with its host key pinned
	refuse     atomic.Int32
	accepted   atomic.Int32 // connections taken, refused ones too
	forwarded  atomic.Int32
	acceptEnv  []string
	dir        string
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	hostKey, _ := newKey(t)
	userKey, userPEM := newKey(t)
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(userKey.PublicKey().Marshal()) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(hostKey)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	port := float64(listener.Addr().(*net.TCPAddr).Port)
	s := &sshServer{dir: t.TempDir()}
	pinned := string(ssh.MarshalAuthorizedKey(hostKey.PublicKey()))
	s.connection = Connection{Host: "127.0.0.1", Port: &port, PrivateKey: &userPEM, HostKey: &pinned}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			if s.refuse.Add(-1) >= 0 {
				conn.Close()
				continue
			}
			go s.serve(conn, config)
		}
	}()
	return s
}

// newKey returns a key and its PEM form.
func newKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			go s.session(channel)
		case "direct-tcpip":
			s.forwarded.Add(1)
			go forward(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "")
		}
	}
}

func (s *sshServer) session(newChannel ssh.NewChannel) {
	channel, requests, err := newChannel.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	env := os.Environ()
	for request := range requests {
		switch request.Type {
		case "env":
			var v struct{ Name, Value string }
			ok := ssh.Unmarshal(request.Payload, &v) == nil && slices.Contains(s.acceptEnv, v.Name)
			if ok {
				env = append(env, v.Name+"="+v.Value)
			}
			_ = request.Reply(ok, nil)
		case "exec":
			var v struct{ Command string }
			_ = request.Reply(ssh.Unmarshal(request.Payload, &v) == nil, nil)
			cmd := exec.Command("sh", "-c", v.Command)
			cmd.Dir, cmd.Env = s.dir, env
			cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
			var status struct{ Status uint32 }
			if err := cmd.Run(); err != nil {
				status.Status = uint32(max(cmd.ProcessState.ExitCode(), 1))
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
			return
		}
	}
}

func forward(newChannel ssh.NewChannel) {
	var v struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(newChannel.ExtraData(), &v); err != nil {
		_ = newChannel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port))))
	if err != nil {
		_ = newChannel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := newChannel.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(conn, channel)
		conn.Close()
	}()
	_, _ = io.Copy(channel, conn)
	channel.Close()
}
