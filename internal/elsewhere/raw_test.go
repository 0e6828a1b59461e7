package elsewhere

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// answeringRaw says text to whoever asks, and the end of it again and again. It does not hang up.
func answeringRaw(t *testing.T, text, again string) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				bufio.NewReader(c).ReadString('\n')
				_, err := io.WriteString(c, text)
				for err == nil && again != "" {
					_, err = io.WriteString(c, again)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Whatever bytes somebody answers, it comes to an error, in time, and with nothing in it that a
// terminal obeys.
func TestRawAnswers(t *testing.T) {
	testenv.Slow(t)
	const tooLate = "deadline exceeded"
	for name, c := range map[string]struct{ text, again, want string }{
		"nothing":                {"", "", tooLate},
		"another protocol":       {"SSH-2.0-x\x1b[31m\r\n", "", "malformed HTTP"},
		"HTTP/2":                 {"HTTP/2.0 200 OK\r\n\r\n{}", "", tooLate},
		"a switch of protocols":  {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "", "another protocol"},
		"escapes in a status":    {"HTTP/1.1 500 \x1b[31mred\r\nContent-Length: 3\r\n\r\nx\x1by", "", "500 Internal"},
		"endless headers":        {"HTTP/1.1 200 OK\r\n", "a: b\r\n", "exceeded 16384 bytes"},
		"an endless header":      {"HTTP/1.1 200 OK\r\na: ", "b", "exceeded 16384 bytes"},
		"endless hints":          {"", "HTTP/1.1 103 Early\r\na: b\r\n\r\n", "exceeded 16384 bytes"},
		"endless chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", tooLate},
		"a body that ends not":   {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}", "", tooLate},
		"an error that ends not": {"HTTP/1.1 500 Oops\r\n\r\n", " ", "500 Internal"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if c.want == tooLate {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
			}
			err := readOne(t, ctx, answeringRaw(t, c.text, c.again))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
				t.Error(err)
			}
		})
	}
}
