// Package stream keeps what a command prints and passes it, line by line, to the
// engine's log while the command runs.
package stream

import (
	"bytes"
	"context"
	"strings"
	"sync"

	provider "github.com/pulumi/pulumi-go-provider"
)

// Logging says which of a command's streams are logged.
type Logging string

// The values of the property `logging`.
const (
	Stdout          Logging = "stdout"
	Stderr          Logging = "stderr"
	StdoutAndStderr Logging = "stdoutAndStderr"
	None            Logging = "none"
)

// Capture collects one stream.
type Capture struct {
	mu   sync.Mutex
	all  bytes.Buffer
	line bytes.Buffer
	log  func(string)
}

// New returns the captures of a command's two streams. Without a choice both are
// logged, as the official plugin does.
func New(ctx context.Context, logging *Logging) (stdout, stderr *Capture) {
	logger := provider.GetLogger(ctx)
	on := func(mine Logging) func(string) {
		if logs(logging, mine) {
			return logger.Info
		}
		return func(string) {}
	}
	return &Capture{log: on(Stdout)}, &Capture{log: on(Stderr)}
}

// logs tells whether a choice logs one of the streams.
func logs(logging *Logging, stream Logging) bool {
	return logging == nil || *logging == "" || *logging == StdoutAndStderr || *logging == stream
}

// Write implements io.Writer.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Write(p)
	for _, b := range p {
		if b != '\n' {
			c.line.WriteByte(b)
			continue
		}
		c.flush()
	}
	return len(p), nil
}

// String is all that was written, without the last newline; it logs a line that
// had no end.
func (c *Capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	return strings.TrimSuffix(c.all.String(), "\n")
}

func (c *Capture) flush() {
	if c.line.Len() > 0 {
		c.log(c.line.String())
		c.line.Reset()
	}
}
