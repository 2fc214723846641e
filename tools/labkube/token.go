package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
)

// A whole token is K10<SHA-256 of the CA's certificate>::<user>:<password>, as
// k3s has it: who joins with it checks the server before it says the password.
const tokenPrefix = "K10"

type token struct {
	caHash   string // hex; "" when the server can't be checked
	user     string
	password string
}

func newPassword() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return hex.EncodeToString(b)
}

func (t token) String() string {
	return fmt.Sprintf("%s%s::%s:%s", tokenPrefix, t.caHash, t.user, t.password)
}

// parseToken reads a whole token. The short form, a password alone, is refused: it
// would be sent to whoever answers at the server's address.
func parseToken(text string) (token, error) {
	head, credentials, ok := strings.Cut(strings.TrimSpace(text), "::")
	user, password, named := strings.Cut(credentials, ":")
	hash, whole := strings.CutPrefix(head, tokenPrefix)
	if !ok || !named || !whole || len(hash) != sha256.Size*2 || user == "" || password == "" {
		return token{}, fmt.Errorf("token: want the whole one, %s<sha256>::<user>:<password>, from the server's file server/node-token", tokenPrefix)
	}
	return token{hash, user, password}, nil
}

func hashOf(caPEM []byte) string {
	sum := sha256.Sum256(caPEM)
	return hex.EncodeToString(sum[:])
}

// checks says whether a CA is the one that the token was made for.
func (t token) checks(caPEM []byte) bool {
	return subtle.ConstantTimeCompare([]byte(t.caHash), []byte(hashOf(caPEM))) == 1
}
