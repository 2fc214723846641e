package infra

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Digest identifies plain values, in order: equal values, equal digest. Maps are
// taken in the order of their keys.
func Digest(values ...any) string {
	text, err := jsonText(values)
	if err != nil {
		panic(fmt.Sprintf("digest of %T: %v", values, err)) // a programming error: only plain values are digested
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]
}

// jsonText is a value as one line of JSON.
func jsonText(value any) (string, error) {
	raw, err := json.Marshal(value)
	return string(raw), err
}
