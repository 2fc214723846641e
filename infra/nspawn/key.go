package nspawn

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKey is the public key, as a line of known_hosts without the host, of the
// sshd whose private key comes from seed (32 bytes, RFC 8032).
func HostKey(seed []byte) (string, error) {
	if len(seed) != ed25519.SeedSize {
		return "", fmt.Errorf("host key seed: %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	public, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))), nil
}

// hostKeyFile is the private key in the format that sshd reads.
func hostKeyFile(seed []byte) ([]byte, error) {
	block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(seed), "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// publicKey is the key that the machine's sshd must show.
func publicKey(spec MachineSpec) (ssh.PublicKey, error) {
	seed, err := seedOf(spec.HostKeySeed)
	if err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
}

func seedOf(text string) ([]byte, error) {
	seed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("hostKeySeed: want %d bytes in base64", ed25519.SeedSize)
	}
	return seed, nil
}
