package pubsub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// tableFile writes a file with lines and returns its path.
func tableFile(t testing.TB, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "groups")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// withOptions adds options to a URL.
func withOptions(url string, options ...string) string {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + strings.Join(options, "&")
}

// Every fabric maps topics to groups as its URL says, and a bus joins only the groups of its topics. docs/protocol
// §3.10, §3.14, §3.15.
func TestMapping(t *testing.T) {
	topics := []string{"md.xnas.AAPL", "md.xnas.MSFT", "md.xnas.AAPL.trades", "md.xnas"}
	table := tableFile(t, "# exchange", "md.xnas 3", "md.xnas.> 3")
	for _, x := range []struct {
		name, option string
		same         bool // all topics are in one group
	}{
		{"hash", "map=hash", false},
		{"default", "", false},
		{"prefix", "map=prefix:2", true},
		{"table", "map=table:" + table, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			eachFabric(t, func(t *testing.T, url string) {
				ctx := testContext(t)
				url = withOptions(url, "groups=8", x.option)
				pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
				sub := subscribe(t, subBus, topics[0], Topics(topics[1:]...))
				groups := make(map[int]bool)
				for _, topic := range topics {
					groups[pubBus.Group(topic)] = true
					pub := publisher(t, pubBus, topic)
					wait(t, ctx, pub, 1)
					publish(t, ctx, pub, topic)
					want(t, ctx, sub, topic)
				}
				if len(groups) == 1 != x.same || pubBus.Groups() != 8 {
					t.Errorf("the topics are in %d of %d groups, want one group: %v, of 8", len(groups), pubBus.Groups(), x.same)
				}
				if n := len(subBus.Stats().Groups); n != len(groups) {
					t.Errorf("%d groups are joined for topics in %d, want equal numbers", n, len(groups))
				}
			})
		})
	}
}

func TestMappingErrors(t *testing.T) {
	for option, want := range map[string]string{
		"map=random":               "map=random must be hash, prefix:K or table:FILE",
		"map=prefix":               "such as prefix:2",
		"map=prefix:0":             "from 1 to 255",
		"map=":                     "names no mapping",
		"map=hash&map=hash":        "more than once",
		"map=hash&map=prefix:2":    "more than once",
		"map=%zz":                  "invalid URL escape",
		"map=table:/no/such/table": "/no/such/table: the table cannot be read",
		"map=table:" + tableFile(t, "a 1", "b.> 16"): "groups:2: there is no group 16: groups are 0 to 15",
	} {
		_, err := Open(testContext(t), withOptions(memURL(t), option))
		var of *URLError
		if !errors.Is(err, ErrURL) || !errors.As(err, &of) || !strings.Contains(err.Error(), want) || !strings.Contains(of.URL, "map=") {
			t.Errorf("%s: error %v, want a URLError containing %q", option, err, want)
		}
	}
	_, err := Open(testContext(t), memURL(t)+"?map=table:/no/such/table")
	var te *groupmap.TableError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &te) {
		t.Errorf("no table: error %v, want %v", err, fs.ErrNotExist)
	}
	if b, err := Open(testContext(t), "udp://?iface=lo&map=prefix:2&nonsense=1"); err == nil || !strings.Contains(err.Error(), "&map=prefix:2&nonsense=1") {
		t.Errorf("%v, %v: the error does not show the URL as it was given", b, err)
	}
}

// Buses with different mappings report ConfigMismatch with both mappings. docs/protocol §14.1, §14.4.
func TestMappingsDiffer(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	one, other := tableFile(t, "far.> 0-7"), tableFile(t, "far.> 8-15")
	for _, x := range []struct{ name, there, here, says, does string }{
		{"kind", "map=prefix:1", "map=hash", "mapping prefix:1 there, hash here", "map= in the URL"},
		{"tokens", "map=prefix:1", "map=prefix:2", "mapping prefix:1 there, prefix:2 here", "map= in the URL"},
		{"table", "map=table:" + one, "map=table:" + other, "mapping table with digest", "with the same lines"},
	} {
		t.Run(x.name, func(t *testing.T) {
			ctx := testContext(t)
			url := udpURL(t) + "&groups=16&"
			here := newMismatches()
			pubBus, subBus := openBus(t, Config{}, url+x.there), openBus(t, here.config(), url+x.here)
			topic := farTopic(pubBus, subBus)
			subscribe(t, subBus, topic)
			var apart *events.ConfigMismatchError
			if err := publisher(t, pubBus, topic).WaitSubscribers(ctx, 1); !errors.As(err, &apart) || apart.Differences[0].Field != events.FieldMapping {
				t.Errorf("waiting for subscribers: error %v, want a mismatch of the mapping", err)
			}
			if e := here.first(t, ctx); !strings.Contains(e.Error(), x.says) || !strings.Contains(e.Error(), x.does) || e.Differences[0].Field != events.FieldMapping {
				t.Errorf("event %v, want a different mapping: %q, %q", e, x.says, x.does)
			}
		})
	}
}

// A bus joins each of its groups at most once, however many topics it subscribes to.
func TestJoinsOfManyTopics(t *testing.T) {
	const groups, topics = 64, 10_000
	for _, option := range []string{"map=hash", "map=prefix:1"} {
		b := openBus(t, Config{}, withOptions(udpURL(t), fmt.Sprint("groups=", groups), option))
		var names []string
		for i := range topics {
			names = append(names, fmt.Sprintf("x%d.y%d", i%20, i))
		}
		subscribe(t, b, names[0], Topics(names[1:]...))
		want := make(map[int]bool)
		for _, name := range names {
			want[b.Group(name)] = true
		}
		st := b.Stats()
		if n := len(st.Groups); n != len(want) || n > groups || st.Transport.Joins > groups || st.Transport.JoinsFailed > 0 {
			t.Errorf("%s: %d groups, %d joins and %d failures for %d topics in %d groups, want equal numbers and no failures", option, n, st.Transport.Joins, st.Transport.JoinsFailed, topics, len(want))
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
