package main

import (
	"sync"
	"testing"
)

// contentSQL is one line for everything in the catalogue.
const contentSQL = `SELECT
	(SELECT count(*) FROM catalogue.item) || ' items, ' ||
	(SELECT count(*) FROM catalogue.interaction) || ' interactions, ' ||
	(SELECT md5(string_agg(i::text, E'\n' ORDER BY i.id)) FROM catalogue.item i) || ' ' ||
	(SELECT md5(string_agg(concat_ws(',', id, item_id, kind, extract(epoch FROM at)), E'\n' ORDER BY id)) FROM catalogue.interaction)`

// The seed is part of every measurement: a change to it makes rows incomparable, and
// must be a new migration.
const seeded = "42 items, 6000 interactions, 2a6285093e2b1cfe3cc807f5f694fe3c 15847da4677c085e17baa7edb02834be"

func TestMigrateSeedsTheSameEverywhere(t *testing.T) {
	for range 2 {
		if got := queryText(t, newMigrated(t).databaseURL, contentSQL); got != seeded {
			t.Errorf("the catalogue is %q, want %q", got, seeded)
		}
	}
}

func TestMigrateAgainKeepsWhatWasWritten(t *testing.T) {
	c := newMigrated(t)
	execSQL(t, c.databaseURL, "INSERT INTO catalogue.interaction (item_id, kind, at) VALUES (1, 'like', '2026-11-30')")
	before := queryText(t, c.databaseURL, contentSQL)
	if err := migrate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if after := queryText(t, c.databaseURL, contentSQL); after != before {
		t.Errorf("after a second migrate the catalogue is %q, want %q", after, before)
	}
}

func TestMigrateLeavesTablesOfOthersAlone(t *testing.T) {
	c := newConfig(t)
	execSQL(t, c.databaseURL, "CREATE TABLE public.item AS SELECT 'mine'::text AS title")
	if err := migrate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := queryText(t, c.databaseURL, "SELECT title FROM public.item"); got != "mine" {
		t.Errorf("public.item holds %q", got)
	}
}

func TestMigrateAtTheSameTimeHappensOnce(t *testing.T) {
	c := newConfig(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := migrate(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := queryText(t, c.databaseURL, contentSQL); got != seeded {
		t.Errorf("the catalogue is %q, want %q", got, seeded)
	}
}
