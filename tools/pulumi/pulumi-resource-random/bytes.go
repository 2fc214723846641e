package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"math/big"

	"github.com/pulumi/pulumi-go-provider/infer"
)

// ID implements RandomId.
type ID struct{}

// Annotate sets the official token.
func (i *ID) Annotate(a infer.Annotator) { a.SetToken("index/randomId", "RandomId") }

// IDInputs are the properties of RandomId.
type IDInputs struct {
	ByteLength int                `pulumi:"byteLength" provider:"replaceOnChanges"`
	Prefix     *string            `pulumi:"prefix,optional" provider:"replaceOnChanges"`
	Keepers    *map[string]string `pulumi:"keepers,optional" provider:"replaceOnChanges"`
}

// IDState is what is kept of an id.
type IDState struct {
	IDInputs
	B64Std string `pulumi:"b64Std"`
	B64Url string `pulumi:"b64Url"`
	Hex    string `pulumi:"hex"`
	Dec    string `pulumi:"dec"`
}

// Create makes an id.
func (*ID) Create(_ context.Context, req infer.CreateRequest[IDInputs]) (infer.CreateResponse[IDState], error) {
	resp := infer.CreateResponse[IDState]{Output: IDState{IDInputs: req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	raw := make([]byte, req.Inputs.ByteLength)
	if _, err := rand.Read(raw); err != nil {
		return resp, err
	}
	prefix := or(req.Inputs.Prefix, "")
	resp.ID = base64.RawURLEncoding.EncodeToString(raw)
	resp.Output.B64Std = prefix + base64.StdEncoding.EncodeToString(raw)
	resp.Output.B64Url = prefix + resp.ID
	resp.Output.Hex = prefix + hex.EncodeToString(raw)
	resp.Output.Dec = prefix + new(big.Int).SetBytes(raw).String()
	return resp, nil
}

// Bytes implements RandomBytes.
type Bytes struct{}

// Annotate sets the official token.
func (b *Bytes) Annotate(a infer.Annotator) { a.SetToken("index/randomBytes", "RandomBytes") }

// BytesInputs are the properties of RandomBytes.
type BytesInputs struct {
	Length  int                `pulumi:"length" provider:"replaceOnChanges"`
	Keepers *map[string]string `pulumi:"keepers,optional" provider:"replaceOnChanges"`
}

// BytesState is what is kept of the bytes.
type BytesState struct {
	BytesInputs
	Base64 string `pulumi:"base64" provider:"secret"`
	Hex    string `pulumi:"hex" provider:"secret"`
}

// Create makes the bytes.
func (*Bytes) Create(_ context.Context, req infer.CreateRequest[BytesInputs]) (infer.CreateResponse[BytesState], error) {
	resp := infer.CreateResponse[BytesState]{ID: "none", Output: BytesState{BytesInputs: req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	raw := make([]byte, req.Inputs.Length)
	if _, err := rand.Read(raw); err != nil {
		return resp, err
	}
	resp.Output.Base64, resp.Output.Hex = base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(raw)
	return resp, nil
}
