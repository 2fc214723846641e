// Package servicetest starts real services for tests: Postgres, Redis and nginx,
// as this machine has them installed. They end with the process that started them.
package servicetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Services are those that were started. The zero value has none.
type Services struct {
	Dir       string // of their files; of Postgres the socket's too
	RedisAddr string // HOST:PORT
	stop      []func()
}

// Stop ends the services and removes their files.
func (s *Services) Stop() {
	for _, stop := range slices.Backward(s.stop) {
		stop()
	}
	s.stop = nil
}

func (s *Services) makeDir() (err error) {
	if s.Dir != "" {
		return nil
	}
	if s.Dir, err = os.MkdirTemp("", "services"); err != nil {
		return err
	}
	s.stop = append(s.stop, func() { os.RemoveAll(s.Dir) })
	return os.Chmod(s.Dir, 0o755) // the services run as other users
}

// FreeAddress is an address of 127.0.0.1 that nothing listened on just now.
func FreeAddress() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}

// StartNginx starts an nginx with the configuration text, and waits until the
// address answers.
func (s *Services) StartNginx(configuration, address string) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(configuration), 0o644); err != nil {
		return err
	}
	server := exec.Command("nginx", "-p", s.Dir, "-c", file, "-g", "daemon off; pid nginx.pid;")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.start(server, filepath.Join(s.Dir, "nginx-log"), syscall.SIGTERM); err != nil {
		return err
	}
	return Until(func() error { return answers(address) })
}

func answers(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// DatabaseURL is that of a database of the server, by its socket, as its superuser.
func (s *Services) DatabaseURL(name string) string {
	return "postgres://postgres@/" + name + "?host=" + url.QueryEscape(s.Dir)
}

// StartPostgres starts a Postgres without a port, with more settings as "name=value".
func (s *Services) StartPostgres(settings ...string) error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return fmt.Errorf("there is no Postgres below /usr/lib/postgresql: %w", errors.Join(err, exec.ErrNotFound))
	}
	bin := filepath.Dir(found[len(found)-1])
	if err := s.makeDir(); err != nil {
		return err
	}
	attributes, err := unprivileged(s.Dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.Dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, s.Dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.Dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "log_connections=on")
	for _, setting := range settings {
		server.Args = append(server.Args, "-c", setting)
	}
	server.SysProcAttr, server.Dir = attributes, s.Dir
	if err := s.start(server, s.LogFile(), syscall.SIGINT); err != nil {
		return err
	}
	return Until(func() error {
		conn, err := pgx.Connect(context.Background(), s.DatabaseURL("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(context.Background())
	})
}

// LogFile is where Postgres logs.
func (s *Services) LogFile() string { return filepath.Join(s.Dir, "log") }

// unprivileged has a child run as the user postgres and own the folder, since
// Postgres refuses root. It ends when this process does.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(dir, int(uid), int(gid))
}

// StartRedis starts a Redis on a free port of 127.0.0.1, with more arguments.
func (s *Services) StartRedis(arguments ...string) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	address, err := FreeAddress()
	if err != nil {
		return err
	}
	s.RedisAddr = address
	_, port, _ := net.SplitHostPort(address)
	server := exec.Command("redis-server", append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"}, arguments...)...)
	server.Dir = s.Dir
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.start(server, filepath.Join(s.Dir, "redis-log"), syscall.SIGTERM); err != nil {
		return err
	}
	return Until(func() error { return answers(s.RedisAddr) })
}

func (s *Services) start(server *exec.Cmd, log string, end os.Signal) error {
	output, err := os.Create(log)
	if err != nil {
		return err
	}
	defer output.Close()
	server.Stdout, server.Stderr = output, output
	if err := server.Start(); err != nil {
		return err
	}
	s.stop = append(s.stop, func() {
		_ = server.Process.Signal(end)
		_ = server.Wait()
	})
	return nil
}

// Until asks again until there is no error, for a minute.
func Until(ask func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // between two questions, not instead of one
	}
}
