package cli

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// publishing is a bus that has published a message on each topic.
func publishing(t *testing.T, name, url string, topics ...string) *pubsub.Bus {
	t.Helper()
	bus, err := pubsub.Config{Name: name}.Open(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	for _, topic := range topics {
		p, err := bus.Publisher(topic)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Publish(testContext(t), []byte("x")), p.Flush(testContext(t))); err != nil {
			t.Fatal(err)
		}
	}
	return bus
}

// ls lists the topics that match, their publishers and addresses.
func TestLs(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	url := memURL(t)
	publishing(t, "feed-a", url, "md.one", "md.two", "news")
	publishing(t, "feed-b", url, "md.two")
	r := runWith(testContext(t), "", "ls", "-t", url, "-for", "1s", "md.>")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var rows [][]string
	for _, l := range lines {
		rows = append(rows, strings.Fields(l))
	}
	if r.code != exitOK || len(rows) != 4 || rows[0][0] != "TOPIC" {
		t.Fatalf("exit code %d with %d rows, want %d with 4: %s%s", r.code, len(rows), exitOK, r.stdout, r.stderr)
	}
	for i, want := range []string{"md.one feed-a", "md.two feed-a", "md.two feed-b"} {
		if row := rows[i+1]; row[0]+" "+row[3] != want || row[1] != "1" || len(row) != 6 {
			t.Errorf("row %q, want %s", row, want)
		}
	}
	if !strings.Contains(r.stderr, "2 topics, 2 publishers, 16 groups, within") {
		t.Errorf("standard error %q, want 2 topics, 2 publishers and 16 groups", r.stderr)
	}
}

func TestLsJSON(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	url := memURL(t)
	publishing(t, "feed-a", url, "md.one", "news")
	r := runWith(testContext(t), "", "ls", "-t", url, "-for", "1s", "-json")
	list := objects(t, r.stdout)
	if r.code != exitOK || len(list) != 3 {
		t.Fatalf("exit code %d with %d objects, want %d with 3: %s%s", r.code, len(list), exitOK, r.stdout, r.stderr)
	}
	var x jsonTopic
	if err := json.Unmarshal([]byte(strings.Split(r.stdout, "\n")[0]), &x); err != nil {
		t.Fatal(err)
	}
	if x.Type != "topic" || x.Topic != "md.one" || x.Group == "" || len(x.Publishers) != 1 || x.Publishers[0].Name != "feed-a" || x.Publishers[0].Messages != 1 {
		t.Errorf("first object %+v, want topic md.one with 1 message of publisher feed-a", x)
	}
	if ids := regexp.MustCompile(`{"publisher":"[0-9a-f]{16}","name":"feed-a","epoch":"[0-9a-f]{16}",`); !ids.MatchString(r.stdout) {
		t.Errorf("ids are not 16 hexadecimal digits: %s", r.stdout)
	}
	if sum := list[2]; sum["type"] != "summary" || sum["topics"] != 2.0 || sum["publishers"] != 1.0 || sum["groups_joined"] != 16.0 || sum["error"] != nil {
		t.Errorf("summary %v, want 2 topics, 1 publisher, 16 groups joined and no error", sum)
	}
}

// If nothing is listed, ls reports the reason, if known.
func TestLsOfNothing(t *testing.T) {
	t.Parallel()
	url := memURL(t)
	for _, c := range []struct {
		name, of, ls string
		args         []string
		code         int
		wantText     []string
	}{
		{"alone", "", url + "-alone", nil, exitIncomplete, []string{"no publisher was detected in", "16 groups", "its only bus"}},
		{"no match", url + "-match", url + "-match", []string{"sports.*", "x"}, exitIncomplete, []string{"none of the topics of 1 publisher matches sports.*, x"}},
		{"configured differently", url + "-other?groups=8", url + "-other", []string{"sports"}, exitMismatch, []string{"8", "16"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.of != "" {
				b := publishing(t, "feed", c.of, "news", "x.y")
				t.Cleanup(func() { b.Close() })
			}
			r := runWith(testContext(t), "", append([]string{"ls", "-t", c.ls, "-for", "2s", "-json"}, c.args...)...)
			if r.code != c.code || slices.ContainsFunc(c.wantText, func(s string) bool { return !strings.Contains(r.stderr, s) }) {
				t.Errorf("exit code %d, standard error %q; want %d and %q", r.code, r.stderr, c.code, c.wantText)
			}
			if list := objects(t, r.stdout); len(list) != 1 || list[0]["error"] == "" || list[0]["topics"] != 0.0 {
				t.Errorf("standard output %q, want one object with an error and 0 topics", r.stdout)
			}
		})
	}
}

// ls reports what may be missing, and escapes names received from the network.
func TestLsNotes(t *testing.T) {
	list := &pubsub.TopicList{
		Topics:  []pubsub.TopicInfo{{Name: "a", Publishers: []pubsub.TopicPublisher{{Name: "x\x1b[31m", Rate: 0.25, Address: "\x07"}}}},
		Unnamed: 1, Incomplete: 2, Groups: 16, Failed: 3, Err: errors.New("no buffer space"), Refused: 4,
	}
	notes := strings.Join(lsNotes(list), "\n")
	for _, want := range []string{"3 of 16 groups could not be joined: no buffer space", "2 publishers had not named", "1 topic had messages but no name", "4 times"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q lack %q", notes, want)
		}
	}
	var b strings.Builder
	if err := lsTable(&b, list); err != nil || !strings.Contains(b.String(), `x\x1b[31m`) || strings.ContainsAny(b.String(), "\x1b\x07") || !strings.Contains(b.String(), "0.2") {
		t.Errorf("table %q, error %v, want escaped control characters and the rate 0.2", b.String(), err)
	}
}
