package urlopt

import (
	"net/url"
	"strings"
	"testing"
)

type config struct {
	n, minimum, bytes int
	off               bool
}

var options = Set[config]{
	"n":     func(c *config, val string) error { return Number(&c.n, val, 2, 9) },
	"least": func(c *config, val string) error { return AtLeast(&c.minimum, val, 3) },
	"bytes": func(c *config, val string) error { return Bytes(&c.bytes, val) },
	"off":   func(c *config, val string) error { return Offload(&c.off, val) },
}

func read(t *testing.T, raw string) (config, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var c config
	query, err := Query(u)
	if err == nil {
		err = options.Read(&c, u.Scheme, query)
	}
	return c, err
}

func TestRead(t *testing.T) {
	for raw, want := range map[string]config{
		"x://":                   {},
		"x://h?n=2&least=999999": {n: 2, minimum: 999999},
		"x://h?n=9&off=off":      {n: 9, off: true},
		"x://h?off=auto&bytes=1": {bytes: 1},
		"x://h?bytes=8k":         {bytes: 8 << 10},
		"x://h?bytes=3M":         {bytes: 3 << 20},
		"x://h?bytes=1G":         {bytes: 1 << 30},
		"x://h?bytes=1073741824": {bytes: 1 << 30},
	} {
		if got, err := read(t, raw); err != nil || got != want {
			t.Errorf("%s: options %+v, error %v, want %+v", raw, got, err, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"x://h?n=1":              "x: option n=1 must be a whole number from 2 to 9",
		"x://h?n=10":             "x: option n=10 must be a whole number from 2 to 9",
		"x://h?n=two":            "x: option n=two must be a whole number from 2 to 9",
		"x://h?n=":               "x: option n= must be a whole number from 2 to 9",
		"x://h?least=2":          "x: option least=2 must be a whole number from 3",
		"x://h?bytes=0":          "x: option bytes=0 must be from 1 to 1G bytes",
		"x://h?bytes=1025M":      "x: option bytes=1025M must be from 1 to 1G bytes",
		"x://h?bytes=1T":         "x: option bytes=1T must be from 1 to 1G bytes",
		"x://h?bytes=-1":         "x: option bytes=-1 must be from 1 to 1G bytes",
		"x://h?bytes=1073741825": "x: option bytes=1073741825 must be from 1 to 1G bytes",
		"x://h?off=on":           "x: option off=on must be auto or off",
		"x://h?z=1&y=1":          `x: unknown option "y"; known are bytes, least, n, off`,
		"x://h?n=2&n=3":          "x: option n is given 2 times; leave one",
		"x://?n=%zz":             `x: the options of "x://?n=%zz" cannot be read`,
		"x://h?n=%zz":            `x: the options of "x://h?n=%zz" cannot be read`,
	} {
		if _, err := read(t, raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", raw, err, want)
		}
	}
}
