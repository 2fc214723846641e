package sample

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lab/loadtest/plan"
)

// postgres asks over one kept connection, which stays also when the server has
// no other left.
type postgres struct {
	service    plan.Service
	conn       *pgx.Conn
	limit      float64         // of other sessions, as the server said last; 0 before
	refused    int64           // connections of this sampler that the full server turned away
	statements ServiceCounters // the last ones
	at         time.Time
}

func (p *postgres) ask(ctx context.Context) (ServiceCounters, error) {
	if p.conn == nil {
		settings, err := pgx.ParseConfig(fmt.Sprintf("host=%s user=%s dbname=%s application_name=lab-sampler", p.service.Address, p.service.User, p.service.Database))
		if err != nil {
			return ServiceCounters{}, err
		}
		conn, err := pgx.ConnectConfig(ctx, settings)
		if serverFull(err) {
			return p.full(), nil
		}
		if err != nil {
			return ServiceCounters{}, err
		}
		p.conn = conn
	}
	c, err := p.read(ctx)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), serviceTimeout)
		defer cancel()
		_ = p.conn.Close(closing) // the socket is closed in any case; the next reading makes a new one
		p.conn = nil
	}
	return c, err
}

// full is what is known of a server that has no connection for the sampler: the
// others hold all that they may. A connection of the sampler ends whenever an answer
// takes too long, so this must not be a gap exactly when connections are the wall.
func (p *postgres) full() ServiceCounters {
	p.refused++
	limit := p.limit
	if limit == 0 {
		limit = p.service.Limit
	}
	return ServiceCounters{Full: true, Connections: limit, Limit: limit, Refused: p.refused}
}

// serverFull says whether the server has no slot left, as against the sampler's role
// or its database. All have the code 53300 (too_many_connections); only the name of
// the server's function, which no locale changes, tells them apart.
func serverFull(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == "53300" && slices.Contains([]string{"InitProcess", "InitPostgres"}, refusal.Routine)
}

// activity is one row: the clients beside this one, of what they may be, and
// what the active ones wait for. The reserves (that of Postgres 16 too) and the
// session that asks are not for clients.
const activity = `
SELECT count(*) FILTER (WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0) - 1,
  (SELECT coalesce(sum(blks_hit), 0)::float8 FROM pg_stat_database),
  (SELECT coalesce(sum(blks_read), 0)::float8 FROM pg_stat_database),
  (SELECT coalesce(json_object_agg(wait_event_type, n), '{}') FROM (
    SELECT wait_event_type, count(*) AS n FROM pg_stat_activity
    WHERE state = 'active' AND wait_event_type IS NOT NULL AND pid <> pg_backend_pid() GROUP BY 1) AS waits)
FROM pg_stat_activity`

const statements = `
SELECT queryid::text, calls, total_exec_time, sum(total_exec_time) OVER ()
FROM pg_stat_statements(false) WHERE queryid IS NOT NULL ORDER BY total_exec_time DESC LIMIT $1`

func (p *postgres) read(ctx context.Context) (ServiceCounters, error) {
	var c ServiceCounters
	if err := p.conn.QueryRow(ctx, activity).Scan(&c.Connections, &c.Limit, &c.Hits, &c.Misses, &c.Waits); err != nil {
		return c, err
	}
	c.Waiting, c.Refused, p.limit = c.Waits["Lock"], p.refused, c.Limit
	if time.Since(p.at) >= statementsEvery {
		if err := p.readStatements(ctx); err != nil {
			return c, err
		}
	}
	c.Statements, c.StatementsMs = p.statements.Statements, p.statements.StatementsMs
	return c, nil
}

func (p *postgres) readStatements(ctx context.Context) error {
	rows, err := p.conn.Query(ctx, statements, statementsKept)
	if err != nil {
		return err
	}
	var now ServiceCounters
	var one StatementCounter
	_, err = pgx.ForEachRow(rows, []any{&one.ID, &one.Calls, &one.Ms, &now.StatementsMs}, func() error {
		now.Statements = append(now.Statements, one)
		return nil
	})
	if err == nil {
		p.statements, p.at = now, time.Now()
	}
	return err
}
