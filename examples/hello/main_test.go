package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestMain lets the test binary also run as the program.
func TestMain(m *testing.M) {
	if os.Getenv("HELLO_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the program as a process, and returns its standard output.
func start(t *testing.T, ctx context.Context, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "HELLO_MAIN=1")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func line(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("the output ended: %v", s.Err())
	}
	return s.Text()
}

// Two processes: one prints what the other publishes, whichever starts first.
func TestHello(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("multicast on the loopback interface needs Linux")
	}
	for _, first := range []string{"subscriber", "publisher"} {
		t.Run(first+" first", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			url := fmt.Sprintf("-url=udp://?iface=lo&port=%d", testenv.Port(t))
			publisher := []string{url, "good", "morning"}

			var sub, pub *exec.Cmd
			var subOut, pubOut *bufio.Scanner
			subscribe := func() {
				sub, subOut = start(t, ctx, url)
				if got := line(t, subOut); !strings.Contains(got, "./hello good morning") {
					t.Errorf("the subscriber printed %q, want one that ends with ./hello good morning", got)
				}
			}
			publish := func() {
				pub, pubOut = start(t, ctx, publisher...)
				if got := line(t, pubOut); !strings.HasSuffix(got, "./hello") {
					t.Errorf("the publisher printed %q, want one that ends with ./hello", got)
				}
			}
			if first == "subscriber" {
				subscribe()
				publish()
			} else {
				publish()
				subscribe()
			}

			if got := line(t, subOut); got != "good morning" {
				t.Errorf("the subscriber printed %q, want good morning", got)
			}
			for pubOut.Scan() {
				t.Errorf("the publisher printed more: %q", pubOut.Text())
			}
			if err := pub.Wait(); err != nil {
				t.Errorf("the publisher ended with %v", err)
			}
			if err := sub.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			for subOut.Scan() {
				t.Errorf("the subscriber printed more: %q", subOut.Text())
			}
			if err := sub.Wait(); err != nil {
				t.Errorf("the subscriber ended with %v after an interrupt", err)
			}
		})
	}
}
