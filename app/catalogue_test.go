package main

import (
	"encoding/json"
	"reflect"
	"testing"
)

var readPaths = []string{"/api/items", "/api/items/1", "/api/items/42", "/api/item", "/api/popular", "/api/latest", "/api/tags"}

func TestBothQueryShapesGiveTheSameAnswers(t *testing.T) {
	c := newMigrated(t)
	// What tells the shapes apart if one is wrong: an item without interactions, one
	// without likes, and two that tie.
	execSQL(t, c.databaseURL, `INSERT INTO catalogue.item VALUES (0, 'none', 'fan'), (-1, 'no likes', 'fan'), (-2, 'ties', 'new'), (-3, 'ties', 'new');
		INSERT INTO catalogue.interaction (item_id, kind, at) VALUES (-1, 'view', '2027-01-01'), (-2, 'like', '2027-01-01 00:00:00.9'), (-3, 'like', '2027-01-01 00:00:00.1')`)
	join := newTestServer(t, c)
	c.correlated = true
	subquery := newTestServer(t, c)
	for _, path := range append(readPaths, "/api/items/0", "/api/items/-1") {
		one, other := join.want(200, join.get(path)), subquery.want(200, subquery.get(path))
		if one.body != other.body {
			t.Errorf("%s: join gives\n%s\nsubquery gives\n%s", path, one.body, other.body)
		}
	}
}

func TestReadsAnswerWithTheSeed(t *testing.T) {
	s := newTestServer(t, newMigrated(t))
	for _, tt := range []struct {
		path string
		rows int
		keys []string
	}{
		{"/api/items", 21, []string{"id", "title", "tag", "likes"}},
		{"/api/popular", 10, []string{"id", "title", "interactions"}},
		{"/api/latest", 21, []string{"id", "title", "latestSeconds"}},
		{"/api/tags", 6, []string{"tag", "items"}},
	} {
		got := s.want(200, s.get(tt.path))
		var rows []map[string]any
		if err := json.Unmarshal([]byte(got.body), &rows); err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		if len(rows) != tt.rows {
			t.Errorf("%s has %d rows, want %d", tt.path, len(rows), tt.rows)
		}
		for _, key := range tt.keys {
			if value, ok := rows[0][key]; !ok || reflect.ValueOf(value).IsZero() {
				t.Errorf("%s: %s is %v in the first row", tt.path, key, value)
			}
		}
	}
	if one, seventh := s.get("/api/item").body, s.get("/api/items/7").body; one != seventh {
		t.Errorf("/api/item is %s, /api/items/7 is %s", one, seventh)
	}
	for _, path := range []string{"/api/items/9999", "/api/items/x", "/api/item?id=x", "/api/nothing"} {
		s.want(404, s.get(path))
	}
}

func TestWriteCounts(t *testing.T) {
	s := newTestServer(t, newMigrated(t))
	likes := func() int64 {
		var i item
		if err := json.Unmarshal([]byte(s.want(200, s.get("/api/items/3")).body), &i); err != nil {
			t.Fatal(err)
		}
		return i.Likes
	}
	before := likes()
	for _, body := range []string{"", `{}`, `{"kind":"like"}`, `{"kind":"view"}`} {
		s.want(201, s.do("POST", "/api/items/3/interactions", body))
	}
	if got := likes() - before; got != 3 {
		t.Errorf("3 likes and a view made %d likes", got)
	}
	for _, body := range []string{`{"kind":"love"}`, `{"sort":"like"}`, `[]`, `{`} {
		s.want(400, s.do("POST", "/api/items/3/interactions", body))
	}
	s.want(404, s.do("POST", "/api/items/9999/interactions", ""))
	s.want(404, s.do("POST", "/api/items/x/interactions", ""))
}
