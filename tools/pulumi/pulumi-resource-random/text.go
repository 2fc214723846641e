package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"github.com/pulumi/pulumi-go-provider/infer"
	"golang.org/x/crypto/bcrypt"
)

// TextInputs are the properties of RandomPassword and RandomString.
type TextInputs struct {
	Length          int                `pulumi:"length" provider:"replaceOnChanges"`
	Lower           *bool              `pulumi:"lower,optional" provider:"replaceOnChanges"`
	Upper           *bool              `pulumi:"upper,optional" provider:"replaceOnChanges"`
	Numeric         *bool              `pulumi:"numeric,optional" provider:"replaceOnChanges"`
	Number          *bool              `pulumi:"number,optional" provider:"replaceOnChanges"`
	Special         *bool              `pulumi:"special,optional" provider:"replaceOnChanges"`
	OverrideSpecial *string            `pulumi:"overrideSpecial,optional" provider:"replaceOnChanges"`
	MinLower        *int               `pulumi:"minLower,optional" provider:"replaceOnChanges"`
	MinUpper        *int               `pulumi:"minUpper,optional" provider:"replaceOnChanges"`
	MinNumeric      *int               `pulumi:"minNumeric,optional" provider:"replaceOnChanges"`
	MinSpecial      *int               `pulumi:"minSpecial,optional" provider:"replaceOnChanges"`
	Keepers         *map[string]string `pulumi:"keepers,optional" provider:"replaceOnChanges"`
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// text makes a random text: the minima of each class first, the rest from all
// classes, then shuffled.
func text(in TextInputs) (string, error) {
	var alphabet string
	var out []byte
	for _, class := range []struct {
		on    bool
		chars string
		min   int
	}{
		{or(in.Lower, true), "abcdefghijklmnopqrstuvwxyz", or(in.MinLower, 0)},
		{or(in.Upper, true), "ABCDEFGHIJKLMNOPQRSTUVWXYZ", or(in.MinUpper, 0)},
		{or(in.Numeric, true) && or(in.Number, true), "0123456789", or(in.MinNumeric, 0)},
		{or(in.Special, true), or(in.OverrideSpecial, "!@#$%&*()-_=+[]{}<>:?"), or(in.MinSpecial, 0)},
	} {
		if class.on {
			alphabet += class.chars
		}
		more, err := pick(class.chars, class.min)
		if err != nil {
			return "", err
		}
		out = append(out, more...)
	}
	if len(out) > in.Length {
		return "", fmt.Errorf("length %d is below the sum of the minima, %d", in.Length, len(out))
	}
	more, err := pick(alphabet, in.Length-len(out))
	if err != nil {
		return "", err
	}
	out = append(out, more...)
	for i := len(out) - 1; i > 0; i-- {
		j, err := below(i + 1)
		if err != nil {
			return "", err
		}
		out[i], out[j] = out[j], out[i]
	}
	return string(out), nil
}

func pick(chars string, n int) ([]byte, error) {
	if n > 0 && chars == "" {
		return nil, errors.New("no character class is on: set lower, upper, numeric or special")
	}
	out := make([]byte, n)
	for i := range out {
		j, err := below(len(chars))
		if err != nil {
			return nil, err
		}
		out[i] = chars[j]
	}
	return out, nil
}

func below(n int) (int, error) {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		return 0, err
	}
	return int(i.Int64()), nil
}

// Password implements RandomPassword.
type Password struct{}

// Annotate sets the official token.
func (p *Password) Annotate(a infer.Annotator) { a.SetToken("index/randomPassword", "RandomPassword") }

// PasswordState is what is kept of a password.
type PasswordState struct {
	TextInputs
	Result     string `pulumi:"result" provider:"secret"`
	BcryptHash string `pulumi:"bcryptHash" provider:"secret"`
}

// Create makes a password.
func (*Password) Create(_ context.Context, req infer.CreateRequest[TextInputs]) (infer.CreateResponse[PasswordState], error) {
	resp := infer.CreateResponse[PasswordState]{ID: "none", Output: PasswordState{TextInputs: req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	var err error
	if resp.Output.Result, err = text(req.Inputs); err != nil {
		return resp, err
	}
	short := []byte(resp.Output.Result)
	hash, err := bcrypt.GenerateFromPassword(short[:min(len(short), 72)], bcrypt.DefaultCost) // bcrypt reads 72 bytes
	resp.Output.BcryptHash = string(hash)
	return resp, err
}

// String implements RandomString.
type String struct{}

// Annotate sets the official token.
func (s *String) Annotate(a infer.Annotator) { a.SetToken("index/randomString", "RandomString") }

// StringState is what is kept of a string.
type StringState struct {
	TextInputs
	Result string `pulumi:"result"`
}

// Create makes a string.
func (*String) Create(_ context.Context, req infer.CreateRequest[TextInputs]) (infer.CreateResponse[StringState], error) {
	resp := infer.CreateResponse[StringState]{ID: "none", Output: StringState{TextInputs: req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	var err error
	resp.Output.Result, err = text(req.Inputs)
	resp.ID = resp.Output.Result
	return resp, err
}
