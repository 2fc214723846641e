package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout     = 10 * time.Second // of one connection's making
	tooManyConnections = "53300"          // SQLSTATE
)

// database hands out connections: kept up to an age, or a new one each time. Either
// way at most POOL_SIZE are open, so that it can be kept under max_connections.
type database struct {
	settings *pgx.ConnConfig
	pool     *pgxpool.Pool // nil: a new connection for every use
	slots    chan struct{} // bounds the connections without a pool
	opened   atomic.Int64  // connections made so far
	waiting  atomic.Int64  // requests that wait for a connection
	refused  atomic.Int64  // connections that the server had no place for
}

// openDatabase reaches nothing yet: the first use connects.
func openDatabase(ctx context.Context, url string, c config) (*database, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL or REPLICA_URL: is not a URL of a Postgres database") // err may hold the password
	}
	settings.ConnConfig.ConnectTimeout = connectTimeout
	settings.ConnConfig.RuntimeParams["application_name"] = "lab-app"
	// No prepared statements: with them, keeping connections would save planning too,
	// and its row of the table would not be about connections alone.
	settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	d := &database{settings: settings.ConnConfig.Copy(), slots: make(chan struct{}, c.poolSize)}
	if c.connMaxAge == 0 {
		return d, nil
	}
	settings.MinConns, settings.MaxConns = 0, int32(c.poolSize)
	settings.MaxConnLifetime, settings.MaxConnIdleTime = c.connMaxAge, c.connMaxAge
	settings.AfterConnect = func(context.Context, *pgx.Conn) error {
		d.opened.Add(1)
		return nil
	}
	if d.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return d, nil
}

func (d *database) close() {
	if d.pool != nil {
		d.pool.Close()
	}
}

// inUse is the number of connections that requests hold.
func (d *database) inUse() int {
	if d.pool != nil {
		return int(d.pool.Stat().AcquiredConns())
	}
	return len(d.slots)
}

// with runs f with a connection.
func (d *database) with(ctx context.Context, f func(*pgx.Conn) error) error {
	d.waiting.Add(1)
	if d.pool != nil {
		conn, err := d.pool.Acquire(ctx)
		d.waiting.Add(-1)
		if err != nil {
			d.noteRefusal(err)
			return fmt.Errorf("wait for a connection: %w", err)
		}
		defer conn.Release()
		return f(conn.Conn())
	}
	select {
	case d.slots <- struct{}{}:
		d.waiting.Add(-1)
		defer func() { <-d.slots }()
	case <-ctx.Done():
		d.waiting.Add(-1)
		return fmt.Errorf("wait for a connection: %w", ctx.Err())
	}
	conn, err := pgx.ConnectConfig(ctx, d.settings)
	if err != nil {
		d.noteRefusal(err)
		return err // names host, user and database, not the password
	}
	d.opened.Add(1)
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the socket is closed in any case
	}()
	return f(conn)
}

// noteRefusal counts a connection that failed for want of a place: the server
// itself keeps no such count.
func (d *database) noteRefusal(err error) {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == tooManyConnections {
		d.refused.Add(1)
	}
}

func (d *database) ping(ctx context.Context) error {
	return d.with(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
}
