package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// querier is what a request needs of a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Begin(ctx context.Context) (pgx.Tx, error)
}

// database hands out connections: kept up to an age, or a new one each time.
type database struct {
	url  string
	pool *pgxpool.Pool // nil: a new connection for every request
	slot chan struct{} // bounds the connections without a pool
}

func openDatabase(ctx context.Context, c config) (*database, error) {
	d := &database{url: c.databaseURL, slot: make(chan struct{}, c.poolSize)}
	if c.connMaxAge == 0 {
		return d, nil
	}
	settings, err := pgxpool.ParseConfig(c.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	settings.MaxConns = int32(c.poolSize)
	settings.MaxConnLifetime = c.connMaxAge
	settings.MaxConnIdleTime = c.connMaxAge
	d.pool, err = pgxpool.NewWithConfig(ctx, settings)
	return d, err
}

func (d *database) close() {
	if d.pool != nil {
		d.pool.Close()
	}
}

// with runs f with a connection.
func (d *database) with(ctx context.Context, f func(querier) error) error {
	if d.pool != nil {
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return f(conn)
	}
	select {
	case d.slot <- struct{}{}:
		defer func() { <-d.slot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// queries of the read endpoints, by name, in both shapes. Both give the same rows.
var queries = map[string]struct{ join, subquery string }{
	"items": {
		`SELECT i.id, i.title, count(DISTINCT x.id) FILTER (WHERE x.kind = 'like') AS likes
		   FROM item i LEFT JOIN interaction x ON x.item_id = i.id
		  GROUP BY i.id, i.title ORDER BY i.id LIMIT 21`,
		`SELECT i.id, i.title, (SELECT count(*) FROM interaction x WHERE x.item_id = i.id AND x.kind = 'like') AS likes
		   FROM item i ORDER BY i.id LIMIT 21`,
	},
	"latest": {
		`SELECT i.id, i.title, coalesce(extract(epoch FROM max(x.at)), 0)::bigint AS latest
		   FROM item i LEFT JOIN interaction x ON x.item_id = i.id
		  GROUP BY i.id, i.title ORDER BY latest DESC, i.id LIMIT 21`,
		`SELECT i.id, i.title, coalesce((SELECT extract(epoch FROM max(x.at)) FROM interaction x WHERE x.item_id = i.id), 0)::bigint AS latest
		   FROM item i ORDER BY latest DESC, i.id LIMIT 21`,
	},
	"popular": {
		`SELECT i.id, i.title, count(DISTINCT x.id) AS interactions
		   FROM item i LEFT JOIN interaction x ON x.item_id = i.id
		  GROUP BY i.id, i.title ORDER BY interactions DESC, i.id LIMIT 10`,
		`SELECT i.id, i.title, (SELECT count(*) FROM interaction x WHERE x.item_id = i.id) AS interactions
		   FROM item i ORDER BY interactions DESC, i.id LIMIT 10`,
	},
	"tags": {
		`SELECT min(i.id), i.tag, count(DISTINCT i.id) FROM item i GROUP BY i.tag ORDER BY i.tag`,
		`SELECT min(i.id), i.tag, count(*) FROM item i GROUP BY i.tag ORDER BY i.tag`,
	},
	"item": {
		`SELECT i.id, i.title, count(DISTINCT x.id)
		   FROM item i LEFT JOIN interaction x ON x.item_id = i.id WHERE i.id = 7 GROUP BY i.id, i.title`,
		`SELECT i.id, i.title, (SELECT count(*) FROM interaction x WHERE x.item_id = i.id) FROM item i WHERE i.id = 7`,
	},
}

// row is one line of an answer: every read counts something for a named thing.
type row struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
	Count int64  `json:"count"`
}

func read(ctx context.Context, d *database, name string, correlated bool) ([]row, error) {
	sql := queries[name].join
	if correlated {
		sql = queries[name].subquery
	}
	var found []row
	err := d.with(ctx, func(q querier) error {
		rows, err := q.Query(ctx, sql)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		return err
	})
	return found, err
}
