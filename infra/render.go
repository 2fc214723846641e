package infra

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed files
var files embed.FS

// File is an embedded file's text. That it exists is known at build time.
func File(name string) string {
	raw, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// serviceFiles are the texts of the embedded files that the services use, by name.
func serviceFiles() map[string]string {
	texts := embeddedFiles()
	maps.DeleteFunc(texts, func(name, _ string) bool { return isClusterFile(name) })
	return texts
}

// embeddedFiles are the texts of all embedded files, by name.
func embeddedFiles() map[string]string {
	texts := map[string]string{}
	names, err := fs.Glob(files, "files/*")
	if err != nil {
		panic(err)
	}
	for _, n := range names {
		n = strings.TrimPrefix(n, "files/")
		texts[n] = File(n)
	}
	return texts
}

// scriptCommand is what runs on the host. It is all of a script that the host's
// process list and an error show.
func scriptCommand(timeout time.Duration) string {
	return fmt.Sprintf("timeout --kill-after=10 %d bash -s", int(timeout.Seconds()))
}

// undoCommand is scriptCommand for a script that undoes its work.
func undoCommand(timeout time.Duration) string { return "lab_undo=1 " + scriptCommand(timeout) }

// scriptStdin is what bash reads on the host: the variables as quoted
// assignments, the library, then the script in a function with /dev/null as its
// input, so that nothing it runs reads the rest of the script.
func scriptStdin(name string, timeout time.Duration, script string, variables, secrets map[string]string) string {
	all := map[string]string{}
	maps.Copy(all, variables)
	maps.Copy(all, secrets)
	all["lab_script"], all["lab_timeout"] = name, fmt.Sprint(int(timeout.Seconds()))
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", n, shellQuote(all[n]))
	}
	fmt.Fprintf(&b, "%s\nlab_main() {\n%s\n}\nlab_main </dev/null\nexit\n", File("lib.sh"), script)
	return b.String()
}

func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var variableRule = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// checkVariables reports names that a script can't have as variables.
func checkVariables(variables map[string]string, secrets []string) error {
	for _, n := range append(slices.Sorted(maps.Keys(variables)), secrets...) {
		if !variableRule.MatchString(n) || strings.HasPrefix(n, "lab_") {
			return fmt.Errorf("variable %q: want a-z, 0-9 and _, not beginning with lab_", n)
		}
	}
	for _, n := range secrets {
		if _, ok := variables[n]; ok {
			return fmt.Errorf("variable %q is given as a secret too", n)
		}
	}
	return nil
}

// render fills an embedded template.
func render(name string, data map[string]any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(File(name))
	if err != nil {
		return "", fmt.Errorf("read the template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// postgresSettings sizes Postgres by its host's memory: 25 % shared buffers and
// 60 % expected cache, as the manual's chapter on resource consumption advises
// (https://www.postgresql.org/docs/current/runtime-config-resource.html).
func postgresSettings(c PostgresConfig, address string, memoryMiB int) (string, error) {
	return render("postgres.conf", map[string]any{
		"Address": address, "Port": postgresPort,
		"MaxConnections": c.MaxConnections,
		"WorkMemMiB":     c.WorkMemMiB,
		"SharedMiB":      memoryMiB / 4,
		"CacheMiB":       memoryMiB * 6 / 10,
		"MaintenanceMiB": max(memoryMiB/16, 8),
	})
}

// redisSettings limits Redis to the configured memory, or to half its host's.
func redisSettings(c RedisConfig, address string, memoryMiB int) (string, error) {
	limit := c.MaxMemoryMiB
	if limit == 0 {
		limit = memoryMiB / 2
	}
	return render("redis.conf", map[string]any{"Address": address, "Port": redisPort, "MaxMemoryMiB": limit, "Policy": c.Policy})
}

// upstream is an address with a port.
func upstream(address string, port int) string { return fmt.Sprintf("%s:%d", address, port) }

// tcpRetries is how often the edge's kernel sends again what a node does not
// acknowledge, before the connection fails; "" leaves it as it is. A connect timeout
// finds a node that swallows packets, but not on a connection that is open already:
// nginx would wait for its answer until proxy_read_timeout, and the 15 of the kernel
// are 15 minutes. Three are 3 s (200 ms, doubled with each), and unlike a short
// proxy_read_timeout they do not take a slow answer for a dead node.
func tcpRetries(upstreams int) string {
	if upstreams < 2 {
		return ""
	}
	return "3"
}

// edgeSettings sends requests to the upstreams, each an address and a port: that of
// the app, or those of the cluster's nodes. What is told of failed ones has no
// meaning where there is no other.
func edgeSettings(c EdgeConfig, upstreams []string) (string, error) {
	return render("nginx.conf", map[string]any{
		"Workers": c.Workers, "WorkerConnections": c.WorkerConnections, "Keepalive": c.Keepalive, "BufferKiB": c.BufferKiB,
		"ConnectTimeoutMs": c.ConnectTimeoutMs, "NextUpstreamTries": c.NextUpstreamTries, "FailTimeoutSeconds": c.FailTimeoutSeconds,
		"Port": edgePort, "Upstreams": upstreams, "Others": len(upstreams) > 1,
	})
}
