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

// edgeSettings sends requests to the app's address.
func edgeSettings(c EdgeConfig, app string) (string, error) {
	return render("nginx.conf", map[string]any{
		"Workers": c.Workers, "WorkerConnections": c.WorkerConnections, "Keepalive": c.Keepalive, "BufferKiB": c.BufferKiB,
		"Port": edgePort, "Upstream": fmt.Sprintf("%s:%d", app, appPort),
	})
}
