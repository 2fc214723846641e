package loadtest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"lab/config"
	"lab/loadtest/analysis"
	"lab/loadtest/k6"
)

// k6Binary is where the generator keeps the k6 that lab installed.
const k6Binary = "/usr/local/lib/lab/k6"

// K6Config is which k6 the load generator gets. One of Path and URL is set; in
// both, {arch} and {version} stand for what they say.
type K6Config struct {
	Version string            `json:"version"` // v2.2.0
	Path    string            `json:"path"`    // of a file on this computer
	URL     string            `json:"url"`     // of the binary or of a .tar.gz that holds it
	SHA256  map[string]string `json:"sha256"`  // of that file, by architecture: amd64, arm64
}

// from is where the k6 of an architecture comes from.
func (c K6Config) from(arch string) (path, url, sum string) {
	r := strings.NewReplacer("{arch}", arch, "{version}", c.Version)
	return r.Replace(c.Path), r.Replace(c.URL), c.SHA256[arch]
}

var (
	k6Version = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)
	k6Sum     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkK6 checks what the engine k6 needs and keeps the text of a user's own
// script: with the rest of the inputs it says when to measure again.
func checkK6(k *config.Checker, c *Config) {
	sc := &c.Scenario
	if sc.Engine != analysis.EngineK6 {
		k.Add(sc.K6.Script == "", "loadtest.scenario.k6.script", sc.K6.Script, "is there, but engine is "+sc.Engine, "set scenario.engine to k6, or remove it")
		return
	}
	k.Add(sc.Protocol != analysis.ProtocolHTTP2, "loadtest.scenario.protocol", sc.Protocol, "can't be asked of k6, which speaks http/2 only where TLS offers it", "set http/1.1, or the engine builtin")
	checkK6Section(k, c.K6)
	if sc.K6.Script == "" {
		return
	}
	const path = "loadtest.scenario.k6.script"
	text, err := os.ReadFile(sc.K6.Script)
	if err != nil {
		k.Add(false, path, sc.K6.Script, "can't be read", "name a file, from the folder of Pulumi.yaml")
		return
	}
	c.k6Script = string(text)
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	k.Add(sc.K6.ScriptSHA256 == "" || sc.K6.ScriptSHA256 == sum, "loadtest.scenario.k6.scriptSha256", sc.K6.ScriptSHA256, "is not the script's, "+sum, "correct or remove it")
	sc.K6.ScriptSHA256 = sum
	if err := k6.CheckScript(c.k6Script); err != nil {
		k.Add(false, path, sc.K6.Script, "does not measure as lab does: "+err.Error(), "see docs/k6.md")
	}
}

func checkK6Section(k *config.Checker, c K6Config) {
	k.Add(k6Version.MatchString(c.Version), "loadtest.k6.version", c.Version, "is no version of k6, which engine k6 needs", "pin one such as v2.2.0")
	k.Add((c.Path == "") != (c.URL == ""), "loadtest.k6", fmt.Sprintf("path %q and url %q", c.Path, c.URL), "are not one of the two", "set path, of a file on this computer, or url")
	k.Add(c.URL == "" || strings.HasPrefix(c.URL, "https://"), "loadtest.k6.url", c.URL, "is not https", "use an address that begins with https://")
	k.Add(len(c.SHA256) > 0, "loadtest.k6.sha256", len(c.SHA256), "sums are too few", "set one for the load generator's architecture: {amd64: …}")
	for _, arch := range slices.Sorted(maps.Keys(c.SHA256)) {
		k.OneOf("loadtest.k6.sha256", arch, []string{"amd64", "arm64"})
		k.Add(k6Sum.MatchString(c.SHA256[arch]), "loadtest.k6.sha256."+arch, c.SHA256[arch], "is not 64 of 0-9 and a-f", "copy the sum that sha256sum prints")
	}
}
