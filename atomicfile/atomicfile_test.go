package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	path := filepath.Join(dir, "file")
	for _, content := range []string{"one", "another, longer one", ""} {
		if err := Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, errStat := os.Stat(path)
		if err != nil || errStat != nil || string(got) != content || info.Mode().Perm() != 0o640 {
			t.Errorf("%q, mode %v, %v, %v; want %q, 640", got, info.Mode(), err, errStat, content)
		}
	}
	// A folder in the file's place stays, and no part of the new file is left.
	if err := os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}
