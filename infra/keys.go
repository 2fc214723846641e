package infra

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"lab/infra/nspawn"
)

// seedBytes is the length of the seed that a key comes from.
const seedBytes = ed25519.SeedSize

// operatorKey is the private key that comes from a seed in base64, as PEM. It is
// PKCS 8, because that has no random part: the same seed gives the same text, so
// an unchanged stack has no diff.
func operatorKey(seedBase64 string) (string, error) {
	seed, err := seedOf(seedBase64)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// authorizedKey is the line of authorized_keys for operatorKey's key.
func authorizedKey(seedBase64 string) (string, error) { return publicKey(seedBase64) }

// hostKey is the public host key that comes from a seed in base64.
func hostKey(seedBase64 string) (string, error) { return publicKey(seedBase64) }

func publicKey(seedBase64 string) (string, error) {
	seed, err := seedOf(seedBase64)
	if err != nil {
		return "", err
	}
	return nspawn.HostKey(seed)
}

func seedOf(seedBase64 string) ([]byte, error) {
	seed, err := base64.StdEncoding.DecodeString(seedBase64)
	if err != nil || len(seed) != seedBytes {
		return nil, fmt.Errorf("key seed: want %d bytes in base64", seedBytes)
	}
	return seed, nil
}
