package sample

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"lab/loadtest/plan"
)

// postgres asks over one kept connection, which stays also when the server has
// no other left.
type postgres struct {
	service    plan.Service
	conn       *pgx.Conn
	statements ServiceCounters // the last ones
	at         time.Time
}

func (p *postgres) ask(ctx context.Context) (ServiceCounters, error) {
	if p.conn == nil {
		settings, err := pgx.ParseConfig(fmt.Sprintf("host=%s user=%s dbname=%s application_name=lab-sampler", p.service.Address, p.service.User, p.service.Database))
		if err != nil {
			return ServiceCounters{}, err
		}
		if p.conn, err = pgx.ConnectConfig(ctx, settings); err != nil {
			return ServiceCounters{}, err
		}
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

// activity is one row: the clients beside this one, of what they may be, and
// what the active ones wait for. A superuser's reserve is not for clients.
const activity = `
SELECT count(*) FILTER (WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
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
	c.Waiting = c.Waits["Lock"]
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
