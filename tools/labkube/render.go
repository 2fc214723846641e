package main

import (
	"bytes"
	"embed"
	"encoding/base64"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "files/*.tmpl"))

// render is a file of files/ with its values.
func render(name string, values any) ([]byte, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name+".tmpl", values)
	return b.Bytes(), err
}

// writeRendered is a rendered file at a path, its folder made.
func writeRendered(path, name string, mode os.FileMode, values any) error {
	text, err := render(name, values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // also of a file that was there
}

// kubeconfig is one client's way to the API server.
type kubeconfig struct {
	Name, Server  string
	CA, Cert, Key string // base64 of their PEM
}

func newKubeconfig(server string, ca, cert, key []byte) kubeconfig {
	encode := base64.StdEncoding.EncodeToString
	return kubeconfig{"labkube", server, encode(ca), encode(cert), encode(key)}
}
