package infra

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// seed is 32 bytes in base64.
const seed = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func TestKeysAreTheSameForTheSameSeed(t *testing.T) {
	private, err := operatorKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	again, err := operatorKey(seed)
	if err != nil || again != private {
		t.Errorf("another text for the same seed, %v", err)
	}
	signer, err := ssh.ParsePrivateKey([]byte(private))
	if err != nil {
		t.Fatal(err)
	}
	public, err := authorizedKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); got != public {
		t.Errorf("authorized key %q is not the private key's %q", public, got)
	}
	const want = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4" // as openssl pkey derives it
	if host, err := hostKey(seed); err != nil || host != want {
		t.Errorf("host key %q, %v; want %q", host, err, want)
	}
}

func TestBadSeedsAreErrorsThatDoNotShowThem(t *testing.T) {
	for _, bad := range []string{"", "c2VjcmV0", "not base64!"} {
		_, err := operatorKey(bad)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("seed %q: %v", bad, err)
		}
		if _, err := hostKey(bad); err == nil {
			t.Errorf("host seed %q: no error", bad)
		}
	}
}

func TestDigest(t *testing.T) {
	if Digest(map[string]int{"a": 1, "b": 2}) != Digest(map[string]int{"b": 2, "a": 1}) {
		t.Error("the order of a map's keys changes the digest")
	}
	if Digest("ab", "c") == Digest("a", "bc") {
		t.Error("the digest does not tell where values end")
	}
}
