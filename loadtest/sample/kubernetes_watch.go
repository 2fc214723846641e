package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	listLimit    = 500 // objects an answer: the API server pages the rest
	listTimeout  = 30 * time.Second
	watchSeconds = 600 // then the server ends the stream, and it is asked anew from there
	retryAfter   = time.Second
)

var (
	// errExpired says that the API server has forgotten the version to go on from.
	errExpired = errors.New("too old a resource version")
	errUnheard = errors.New("the cluster's objects are not listed yet")
)

// object is what Kubernetes keeps of any kind.
type object interface{ identity() metadata }

type metadata struct {
	UID             string            `json:"uid"`
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Labels          map[string]string `json:"labels"`
	ResourceVersion string            `json:"resourceVersion"`
	Deleted         string            `json:"deletionTimestamp"` // when its end was asked for
	Owners          []struct {
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

// kept are all objects of one kind, as the API server's stream of changes tells
// them: it is listed once, and never polled.
type kept[O object] struct {
	path    string                              // of the kind, below the API server
	changed func(before *O, now O, listed bool) // nil, or told of each object that is new or changed; before is nil for a new one
	tried   chan struct{}                       // closed after the first list, whatever became of it

	mu  *sync.Mutex // shared by all kinds, so that what is read of them belongs together
	all map[string]O
	err error // why it does not follow; nil while it does
}

func newKept[O object](path string, mu *sync.Mutex) *kept[O] {
	return &kept[O]{path: path, tried: make(chan struct{}), mu: mu, all: map[string]O{}, err: errUnheard}
}

// follow lists and watches until ctx ends.
func (k *kept[O]) follow(ctx context.Context, api *apiServer) {
	var first sync.Once
	for version := ""; ctx.Err() == nil; {
		var err error
		listing := version == ""
		if listing {
			version, err = k.list(ctx, api)
		} else {
			version, err = k.watch(ctx, api, version)
		}
		k.report(err, listing)
		first.Do(func() { close(k.tried) })
		if err != nil {
			version = ""
		}
		if err != nil || !listing { // whatever ends streams at once must not be asked without a rest
			pause(ctx, api.retry)
		}
	}
}

// report keeps why the objects are not known from here on: what there was last is
// no data. That a watch's version is forgotten is no such reason: a list follows.
func (k *kept[O]) report(err error, listing bool) {
	if err == nil || !listing && errors.Is(err, errExpired) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// list reads all objects, and the version to go on from.
func (k *kept[O]) list(ctx context.Context, api *apiServer) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all := map[string]O{}
	for next := ""; ; {
		var page struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []O `json:"items"`
		}
		query := url.Values{"limit": {strconv.Itoa(listLimit)}}
		if next != "" {
			query.Set("continue", next)
		}
		body, err := api.get(ctx, k.path, query)
		if err == nil {
			err = json.NewDecoder(body).Decode(&page)
			_ = body.Close()
		}
		if err != nil {
			return "", err
		}
		for _, o := range page.Items {
			all[o.identity().UID] = o
		}
		if next = page.Metadata.Continue; next != "" {
			continue
		}
		if version = page.Metadata.ResourceVersion; version == "" {
			return "", fmt.Errorf("%s: a list without a resourceVersion is none of an API server", k.path)
		}
		k.replace(all)
		return version, nil
	}
}

func (k *kept[O]) replace(all map[string]O) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, now := range all {
		if before, ok := k.all[uid]; ok {
			k.tell(&before, now, true)
		} else {
			k.tell(nil, now, true)
		}
	}
	k.all, k.err = all, nil
}

func (k *kept[O]) tell(before *O, now O, listed bool) {
	if k.changed != nil {
		k.changed(before, now, listed)
	}
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch takes changes from a version on, until the server ends the stream, and
// says from where to go on.
func (k *kept[O]) watch(ctx context.Context, api *apiServer, version string) (string, error) {
	body, err := api.get(ctx, k.path, url.Values{
		"watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(watchSeconds)},
	})
	if err != nil {
		return version, err
	}
	defer body.Close()
	for d := json.NewDecoder(body); ; {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return version, nil
		} else if err != nil {
			return version, fmt.Errorf("%s: the watch broke: %w", k.path, err)
		}
		if version, err = k.take(e, version); err != nil {
			return version, err
		}
	}
}

// take applies an event, and gives the version it leads to.
func (k *kept[O]) take(e event, version string) (string, error) {
	if e.Type == "ERROR" {
		var status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(e.Object, &status); err == nil && status.Code == http.StatusGone {
			return version, errExpired
		}
		return version, fmt.Errorf("%s: the watch ended: %s", k.path, status.Message)
	}
	var now O
	if err := json.Unmarshal(e.Object, &now); err != nil {
		return version, fmt.Errorf("%s: %w", k.path, err)
	}
	m := now.identity()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.Type == "BOOKMARK" { // a version only
		return m.ResourceVersion, nil
	}
	if before, ok := k.all[m.UID]; ok {
		k.tell(&before, now, false)
	} else if e.Type == "ADDED" {
		k.tell(nil, now, false)
	}
	k.all[m.UID] = now
	if e.Type == "DELETED" {
		delete(k.all, m.UID)
	}
	return m.ResourceVersion, nil
}

// get asks the API server. A status other than 200 is an error.
func (a *apiServer) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only to say more
	if resp.StatusCode == http.StatusGone {
		return nil, errExpired
	}
	return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, message(text))
}

// message is what a Status object says, or the text itself.
func message(text []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &status); err == nil && status.Message != "" {
		return status.Message
	}
	return string(text)
}
