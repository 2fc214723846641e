package main

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/pulumi/pulumi-go-provider/infer"
)

func ptr[T any](v T) *T { return &v }

func TestText(t *testing.T) {
	cases := []struct {
		name    string
		in      TextInputs
		allowed string
		min     map[string]int
		problem string
	}{
		{
			name:    "a class that is off does not appear",
			in:      TextInputs{Length: 64, Special: ptr(false), Upper: ptr(false)},
			allowed: "abcdefghijklmnopqrstuvwxyz0123456789",
		},
		{
			name:    "number is the old name of numeric",
			in:      TextInputs{Length: 64, Special: ptr(false), Number: ptr(false)},
			allowed: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
		},
		{
			name:    "minima are kept, special characters can be chosen",
			in:      TextInputs{Length: 6, MinNumeric: ptr(3), MinSpecial: ptr(3), OverrideSpecial: ptr("_")},
			allowed: "0123456789_",
			min:     map[string]int{"0123456789": 3, "_": 3},
		},
		{name: "minima above the length are refused", in: TextInputs{Length: 2, MinLower: ptr(3)}, problem: "below the sum"},
		{
			name:    "no class at all is refused",
			in:      TextInputs{Length: 2, Lower: ptr(false), Upper: ptr(false), Numeric: ptr(false), Special: ptr(false)},
			problem: "no character class",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := text(c.in)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("error %v, want one with %q", err, c.problem)
				}
				return
			}
			if err != nil || len(got) != c.in.Length || strings.Trim(got, c.allowed) != "" {
				t.Fatalf("text %q, %v", got, err)
			}
			for class, want := range c.min {
				n := 0
				for _, r := range got {
					if strings.ContainsRune(class, r) {
						n++
					}
				}
				if n < want {
					t.Errorf("%d of %q in %q, want %d", n, class, got, want)
				}
			}
		})
	}
}

func TestBytesAreTheSameInBothForms(t *testing.T) {
	resp, err := (&Bytes{}).Create(t.Context(), infer.CreateRequest[BytesInputs]{Inputs: BytesInputs{Length: 32}})
	if err != nil {
		t.Fatal(err)
	}
	fromBase64, err64 := base64.StdEncoding.DecodeString(resp.Output.Base64)
	fromHex, errHex := hex.DecodeString(resp.Output.Hex)
	if err64 != nil || errHex != nil || len(fromBase64) != 32 || string(fromBase64) != string(fromHex) {
		t.Errorf("base64 %q, hex %q", resp.Output.Base64, resp.Output.Hex)
	}
}

func TestPreviewMakesNothing(t *testing.T) {
	resp, err := (&Password{}).Create(t.Context(), infer.CreateRequest[TextInputs]{Inputs: TextInputs{Length: 8}, DryRun: true})
	if err != nil || resp.Output.Result != "" {
		t.Errorf("a preview made %q, %v", resp.Output.Result, err)
	}
}
