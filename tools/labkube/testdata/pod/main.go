// Command pod is what the pods of the tests run.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	switch os.Args[1] {
	case "serve": // says which node it is on; /burn takes a tenth of a second of a CPU
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, os.Getenv("NODE")) })
		http.HandleFunc("/burn", func(w http.ResponseWriter, _ *http.Request) {
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
			}
		})
		log.Fatal(http.ListenAndServe(":8080", nil))
	case "get": // URL: prints its text
		r, err := http.Get(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(os.Stdout, r.Body)
	case "lookup": // NAME: prints its addresses
		found, err := net.LookupHost(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.Join(found, " "))
	}
}
