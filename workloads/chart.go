package workloads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lab/build"
)

// helmChart is a chart as Helm is asked for it: a folder or a file, a name in a
// repository, or an address of a registry.
type helmChart struct {
	chart, repo, version string
	// digest is that of the files of a chart on this computer.
	digest string
}

// helmChart is the workload's chart. The path of one on this computer is from root.
func (c Config) helmChart(root string) (helmChart, error) {
	switch other := c.Chart; {
	case other.Repo != "":
		return helmChart{chart: other.Name, repo: other.Repo, version: other.Version}, nil
	case other.OCI != "":
		return helmChart{chart: other.OCI, version: other.Version}, nil
	case other.Path != "":
		digest, err := chartDigest(root, other.Path)
		if err != nil {
			return helmChart{}, fmt.Errorf("chart %s %w", other.Path, err)
		}
		return helmChart{chart: other.Path, digest: digest}, nil
	}
	digest, err := chartDigest(root, chartPath)
	return helmChart{chart: chartPath, digest: digest}, err
}

// identity changes with everything that the chart is.
func (h helmChart) identity() []string { return []string{h.chart, h.repo, h.version, h.digest} }

// description goes with the release. Of a chart on this computer, the Kubernetes
// provider notices a change of the version alone
// (https://github.com/pulumi/pulumi-kubernetes/pull/2672), and of this.
func (h helmChart) description() string {
	if h.digest == "" {
		return "Installed by lab"
	}
	return "Installed by lab from files with the digest " + h.digest
}

// chartDigest is that of a chart's folder or archive. Its errors go after the path.
func chartDigest(root, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("can't be read (%w)", reason(err))
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err != nil {
			return "", errors.New("is a folder without a Chart.yaml")
		}
	} else if filepath.Ext(path) != ".tgz" {
		return "", errors.New("is a file, and no .tgz")
	}
	return build.TreeDigest(filepath.Dir(path), filepath.Base(path))
}

// reason is a file's error without its path.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
