package requests

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Command {
		if err := Serve(context.Background(), os.Args[2], map[string]Contender{"fanfare": Fanfare{}}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// All requests are answered by all, each executed once by each, beside loss. docs/protocol.md §24.
func TestMeasure(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{
		Contender: "fanfare", URL: fmt.Sprintf("udp://239.20.0.0/16?iface=lo&port=%d", testenv.Port(t)),
		Responders: 3, Requests: 300, Askers: 4, Size: 64, Loss: 0.01, Seed: 1, All: true,
	}
	r, err := Measure(t.Context(), exe, s, Fanfare{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Text())
	if r.Answered != 300 || r.Replies != 900 || r.Executed != 900 || r.Twice != 0 || r.Error != "" {
		t.Errorf("%+v", r)
	}
}
