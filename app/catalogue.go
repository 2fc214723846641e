package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The answers of the read endpoints, as JSON.
type (
	item struct {
		ID    int64  `json:"id"`
		Title string `json:"title"`
		Tag   string `json:"tag"`
		Likes int64  `json:"likes"`
	}
	popularItem struct {
		ID           int64  `json:"id"`
		Title        string `json:"title"`
		Interactions int64  `json:"interactions"`
	}
	latestItem struct {
		ID            int64  `json:"id"`
		Title         string `json:"title"`
		LatestSeconds int64  `json:"latestSeconds"` // since 1970, of the latest like; 0: none
	}
	tag struct {
		Tag   string `json:"tag"`
		Items int64  `json:"items"`
	}
)

// shapes is one question in the write-up's two forms, which have the same answer.
type shapes struct{ join, subquery string }

func (s shapes) sql(correlated bool) string {
	if correlated {
		return s.subquery
	}
	return s.join
}

var (
	itemsSQL = shapes{
		join: `SELECT i.id, i.title, i.tag, count(DISTINCT x.id) FILTER (WHERE x.kind = 'like')
			FROM catalogue.item i LEFT JOIN catalogue.interaction x ON x.item_id = i.id
			GROUP BY i.id ORDER BY i.id LIMIT 21`,
		subquery: `SELECT i.id, i.title, i.tag,
				(SELECT count(*) FROM catalogue.interaction x WHERE x.item_id = i.id AND x.kind = 'like')
			FROM catalogue.item i ORDER BY i.id LIMIT 21`,
	}
	itemSQL = shapes{
		join: `SELECT i.id, i.title, i.tag, count(DISTINCT x.id) FILTER (WHERE x.kind = 'like')
			FROM catalogue.item i LEFT JOIN catalogue.interaction x ON x.item_id = i.id
			WHERE i.id = $1 GROUP BY i.id`,
		subquery: `SELECT i.id, i.title, i.tag,
				(SELECT count(*) FROM catalogue.interaction x WHERE x.item_id = i.id AND x.kind = 'like')
			FROM catalogue.item i WHERE i.id = $1`,
	}
	popularSQL = shapes{
		join: `SELECT i.id, i.title, count(DISTINCT x.id) AS interactions
			FROM catalogue.item i LEFT JOIN catalogue.interaction x ON x.item_id = i.id
			GROUP BY i.id ORDER BY interactions DESC, i.id LIMIT 10`,
		subquery: `SELECT i.id, i.title,
				(SELECT count(*) FROM catalogue.interaction x WHERE x.item_id = i.id) AS interactions
			FROM catalogue.item i ORDER BY interactions DESC, i.id LIMIT 10`,
	}
	latestSQL = shapes{
		join: `SELECT i.id, i.title,
				coalesce(floor(extract(epoch FROM max(x.at) FILTER (WHERE x.kind = 'like'))), 0)::bigint AS latest
			FROM catalogue.item i LEFT JOIN catalogue.interaction x ON x.item_id = i.id
			GROUP BY i.id ORDER BY latest DESC, i.id LIMIT 21`,
		subquery: `SELECT i.id, i.title,
				coalesce((SELECT floor(extract(epoch FROM max(x.at))) FROM catalogue.interaction x
					WHERE x.item_id = i.id AND x.kind = 'like'), 0)::bigint AS latest
			FROM catalogue.item i ORDER BY latest DESC, i.id LIMIT 21`,
	}
	tagsSQL = shapes{
		join:     `SELECT tag, count(DISTINCT id) FROM catalogue.item GROUP BY tag ORDER BY tag`,
		subquery: `SELECT tag, count(*) FROM catalogue.item GROUP BY tag ORDER BY tag`,
	}
)

// errNoItem is the answer to a question about an item that is not in the catalogue.
var errNoItem = errors.New("no such item")

// rows asks the database and collects the answer, which is never nil.
func rows[T any](ctx context.Context, d *database, sql string, args ...any) ([]T, error) {
	var found []T
	err := d.with(ctx, func(conn *pgx.Conn) error {
		result, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(result, pgx.RowToStructByPos[T])
		return err
	})
	return found, err
}

// foreignKeyViolation is Postgres's code for a row that refers to nothing.
const foreignKeyViolation = "23503"

// interact records an interaction with an item, committed when it returns.
func interact(ctx context.Context, d *database, itemID int64, kind string) error {
	err := d.with(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO catalogue.interaction (item_id, kind, at) VALUES ($1, $2, now())", itemID, kind)
			return err
		})
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == foreignKeyViolation {
		return errNoItem
	}
	return err
}

// recount brings an item's statistics up to date: every item's with itemID 0. Done
// twice it changes nothing, as a job that may run more than once must be.
func recount(ctx context.Context, d *database, itemID int64) error {
	err := d.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			INSERT INTO catalogue.statistic (item_id, likes, interactions)
			SELECT i.id, count(x.id) FILTER (WHERE x.kind = 'like'), count(x.id)
			FROM catalogue.item i LEFT JOIN catalogue.interaction x ON x.item_id = i.id
			WHERE $1::bigint IN (0, i.id) GROUP BY i.id ORDER BY i.id
			ON CONFLICT (item_id) DO UPDATE SET likes = EXCLUDED.likes, interactions = EXCLUDED.interactions`, itemID)
		return err
	})
	if err != nil {
		return fmt.Errorf("recount item %d: %w", itemID, err)
	}
	return nil
}
