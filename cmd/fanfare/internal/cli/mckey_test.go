package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// runMckey runs mckey in virtual time.
func runMckey(t *testing.T, args ...string) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r = runWith(t.Context(), "", append([]string{"mckey"}, args...)...)
	})
	return r
}

// The output for a join and for each message, with both flavors, and with send-only senders.
func TestMckeySim(t *testing.T) {
	for _, c := range []struct{ flavor, dgid, mlid, source string }{
		{"ib", "ff12:4001:ffff::f01:203", "0xc001", "fe80::200:5300:0:2"},
		{"roce", "::ffff:239.1.2.3", "0x0000", "::ffff:10.77.0.2"},
	} {
		for _, member := range []string{"full member", "send-only full member"} {
			t.Run(c.flavor+" "+member, func(t *testing.T) {
				args := []string{"-t", "sim://?flavor=" + c.flavor}
				if member != "full member" {
					args = append(args, "-o")
				}
				r := runMckey(t, args...)
				if r.code != 0 || r.stderr != "" {
					t.Fatalf("exit code %d, standard error %q, want 0 and nothing", r.code, r.stderr)
				}
				for _, want := range []string{
					"receiver: joined as full member with QPN 0x000011 on sim0 port 1",
					"receiver: joined dgid: " + c.dgid + " mlid " + c.mlid + " sl 0, qpn 0xffffff, qkey 0x01234567",
					"sender: joined as " + member + " with QPN 0x000011",
					"receiver: message 10: 100 bytes, immediate 0x000011, from QPN 0x000011, GID " + c.source + "\n",
					"receiver: 10 of 10 messages received\nsender: 10 messages of 100 bytes sent\n",
				} {
					if !strings.Contains(r.stdout, want) {
						t.Errorf("no %q in\n%s", want, r.stdout)
					}
				}
				if n := strings.Count(r.stdout, "message "); n != 10 {
					t.Errorf("%d messages listed, want 10", n)
				}
			})
		}
	}
}

// Groups, sizes and counts: the receiver prints what the sender sent, and long lists are cut.
func TestMckeyGroups(t *testing.T) {
	dgid := regexp.MustCompile(`joined dgid: (\S+)`)
	for _, c := range []struct {
		count, size int
		group       []string
	}{
		{1, 0, nil}, {60, 4096, nil}, {1500, 100, []string{"-m", "ff15::1234"}}, {10, 100, []string{"-M", "0"}}, {10, 8, []string{"-M", "ff12:1234::77"}},
	} {
		args := append([]string{"-t", "sim://", "-C", fmt.Sprint(c.count), "-S", fmt.Sprint(c.size), "-rate", "100000"}, c.group...)
		r := runMckey(t, args...)
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("%v: exit code %d, standard error %q, want 0 and nothing", args, r.code, r.stderr)
		}
		groups := dgid.FindAllStringSubmatch(r.stdout, -1)
		if len(groups) != 2 || groups[0][1] != groups[1][1] {
			t.Errorf("%v: receivers joined the groups %q, want the same group twice", args, groups)
		}
		listed := regexp.MustCompile(fmt.Sprintf(`(?m)^receiver: message \d+: %d bytes, immediate (\S+), from QPN (\S+), GID \S+$`, c.size)).FindAllStringSubmatch(r.stdout, -1)
		for _, m := range listed {
			if m[1] != m[2] {
				t.Errorf("%v: message %q has immediate data %s, want its sender's QPN %s", args, m[0], m[1], m[2])
			}
		}
		if len(listed) != min(c.count, mckeyListed) {
			t.Errorf("%v: %d messages are listed, want %d, in\n%s", args, len(listed), min(c.count, mckeyListed), r.stdout)
		}
		sums := fmt.Sprintf("\nreceiver: %d of %[2]s received\nsender: %[2]s of %d bytes sent\n", c.count, count(c.count, "message"), c.size)
		if !strings.HasSuffix(r.stdout, sums) {
			t.Errorf("%v: no %q in\n%s", args, sums, r.stdout)
		}
	}
}

// Exit codes distinguish failures, and one line on standard error gives the reason.
func TestMckeyExitCodes(t *testing.T) {
	for _, c := range []struct {
		args     string
		code     int
		wantText string
	}{
		{"-t sim://?loss=0.5&seed=3", exitIncomplete, "7 of 10 messages received within 30s"},
		{"-t sim://?loss=1 -C 1 -timeout 1s", exitIncomplete, "0 of 1 message received within 1s"},
		{"-t sim:// -C 100 -rate 10 -timeout 2s", exitIncomplete, "within 2s"},
		{"-t sim://?sendonly=off -o", exitNoGroup, "send without -o"},
		{"-t sim://?flavor=roce -m ff15::1", exitNoGroup, "only IPv4 groups can be joined"},
		{"-t sim://?flavor=roce -M ff12::1", exitNoGroup, "-M is only for InfiniBand"},
		{"-t sim://?flavor=roce -M 0", exitNoGroup, "-M is only for InfiniBand"},
	} {
		r := runMckey(t, strings.Fields(c.args)...)
		if r.code != c.code || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("mckey %s: exit code %d, standard error %q; want %d and %q", c.args, r.code, r.stderr, c.code, c.wantText)
		}
	}
}

// mckeySideOf makes one side of a command with its own arguments.
func mckeySideOf(t *testing.T, role string, host *fabricurl.Host, expect uint64, size int) *mckeySide {
	t.Helper()
	group := rdma.IPAddr(netip.MustParseAddr(mckeyGroup))
	m := &mckey{size: size, count: expect, timeout: time.Minute, group: group, out: io.Discard}
	return &mckeySide{m: m, role: role, host: host}
}

func codeOf(err error) int {
	if e, ok := err.(*exitError); ok {
		return e.code
	}
	return -1
}

// Messages with another length are received, and counted separately.
func TestMckeyUnexpectedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, err := fabricurl.OpenHost("sim://")
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		rx, tx := mckeySideOf(t, roleReceiver, host, 5, 100), mckeySideOf(t, roleSender, host.Peer, 5, 99)
		for _, s := range []*mckeySide{rx, tx} {
			if _, err := s.join(t.Context(), s.m.group); err != nil {
				t.Fatal(err)
			}
			defer s.close()
		}
		if err := tx.transfer(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := rx.transfer(t.Context()); codeOf(err) != exitUnexpected || rx.unexpected != 5 {
			t.Errorf("%v, %d unexpected messages", err, rx.unexpected)
		}
	})
}

// A receiver that loses its membership reports it; a stopped one ends with the reason. Neither leaks resources.
func TestMckeyReceiverEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, c := range map[string]struct {
		end  func(host *fabricurl.Host, cancel context.CancelCauseFunc)
		code int
	}{
		"port down": {func(host *fabricurl.Host, _ context.CancelCauseFunc) {
			host.Provider.(*fabric.Host).Port(0, 1).SetUp(false)
		}, exitNoGroup},
		"device removed": {func(host *fabricurl.Host, _ context.CancelCauseFunc) {
			host.Provider.(*fabric.Host).RemoveDevice(0)
		}, exitNoGroup},
		"interrupt": {func(_ *fabricurl.Host, cancel context.CancelCauseFunc) { cancel(&signalError{2}) }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, err := fabricurl.OpenHost("sim://")
				if err != nil {
					t.Fatal(err)
				}
				defer host.Close()
				rx := mckeySideOf(t, roleReceiver, host, 5, 100)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if _, err := rx.join(ctx, rx.m.group); err != nil {
					t.Fatal(err)
				}
				errs := make(chan error)
				go func() { errs <- rx.transfer(ctx) }()
				synctest.Wait()
				c.end(host, cancel)
				err = <-errs
				if codeOf(err) != c.code || err == nil {
					t.Errorf("ended with %v, want code %d", err, c.code)
				}
				if err := rx.close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	testenv.AwaitGoroutines(t, before)
}

// Two commands over sockets on loopback, by interface and by address.
func TestMckeyRoCE(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("RoCE in user space is for Linux")
	}
	port := testenv.Port(t)
	group := fmt.Sprintf("239.77.%d.%d", port>>8, port&0xff) // not used by another test
	rx := start(t, nil, "mckey", "-t", "roce://127.0.0.1", "-m", group, "-timeout", "1m")
	await(t, "the receiver to join", func() bool {
		if strings.Contains(rx.stderr.String(), "taken by the kernel") {
			testenv.Skip(t, "this host's kernel has loaded Soft-RoCE, which occupies the UDP port of RoCE: rmmod rdma_rxe")
		}
		return strings.Contains(rx.stdout.String(), "join")
	})
	tx := start(t, nil, "mckey", "-t", "roce://lo", "-m", group, "-s", "-o", "-settle", "0s", "-timeout", "1m")
	tx.end(t, 0)
	rx.end(t, 0)
	if !strings.Contains(tx.stdout.String(), "sender: joined as send-only full member") || strings.Count(rx.stdout.String(), ": 100 bytes, immediate ") != 10 || strings.Contains(rx.stdout.String(), "unexpected") {
		t.Errorf("want a send-only sender and 10 messages; sender:\n%s\nreceiver:\n%s", tx.stdout.String(), rx.stdout.String())
	}
}

// An error before the join is one sentence on standard error, without repetition.
func TestMckeyErrors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("RoCE in user space is for Linux")
	}
	for _, c := range []struct {
		args     string
		code     int
		wantText string
	}{
		{"-t roce://no-such-interface", exitNoDevice, "no network interface is called"},
		{"-t roce://192.0.2.77 -s", exitNoDevice, "no network interface has address 192.0.2.77"},
		{"-t roce://127.0.0.1 -M ff12::1 -s -o", exitNoGroup, "use an IPv4 group with -m"},
	} {
		r := runWith(t.Context(), "", append([]string{"mckey"}, strings.Fields(c.args)...)...)
		if strings.Contains(r.stderr, "taken by the kernel") {
			testenv.Skip(t, "this host's kernel has loaded Soft-RoCE, which occupies the UDP port of RoCE: rmmod rdma_rxe")
		}
		if r.code != c.code || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || strings.Count(r.stderr, "evice") > 2 || strings.Count(r.stderr, c.wantText) != 1 {
			t.Errorf("%s: exit code %d, standard error %q, want %d and %q once", c.args, r.code, r.stderr, c.code, c.wantText)
		}
	}
}

func TestMckeyWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, wantText string }{
		{"", "-t"},
		{"-t sim:// extra", "extra"},
		{"-t ://", "missing protocol scheme"},
		{"-t udp://239.1.2.3", "no RDMA provider"},
		{"-t sim://?color=red", "sim://?color=red: sim: unknown option"},
		{"-t sim://?rq=16", "known are dup, flavor, latency, loss, mlids, mtu, reorder, seed, sendonly, switches"},
		{"-t sim://?flavor=iwarp", "ib or roce"},
		{"-t sim://?loss=2", "from 0 to 1"},
		{"-t sim://?loss=NaN", "from 0 to 1"},
		{"-t sim://?loss=0.1&loss=0.2", "2 times"},
		{"-t sim://?seed=-1", "number from 0"},
		{"-t sim://?sendonly=maybe", "on or off"},
		{"-t sim:///x", "DEVICE"},
		{"-t roce://lo?check=half", "best, full or udp"},
		{"-t rdma://x?a=b", "known are none"},
		{"-t sim:// -m 10.0.0.1", "multicast address"},
		{"-t sim:// -m nope", "multicast address"},
		{"-t sim:// -m 239.1.2.3 -M ff12::1", "use one of the two"},
		{"-t sim:// -M fe80::1", "MGID"},
		{"-t sim:// -M x", "MGID"},
		{"-t sim:// -s", "both sides run in this process"},
		{"-t SIM:// -s", "both sides run in this process"},
		{"-t rdma://x -o", "-s"},
		{"-t sim:// -C 0", "more than 0"},
		{"-t sim:// -C -1", "not negative"},
		{"-t sim:// -S -1", "0 to 4096"},
		{"-t sim:// -S 4097", "0 to 4096"},
		{"-t sim:// -timeout 0s", "more than 0"},
		{"-t sim:// -timeout 5", "500ms"},
		{"-t sim:// -settle -1s", "0s or more"},
		{"-t sim:// -rate -1", "messages a second"},
	} {
		r := runWith(t.Context(), "", append([]string{"mckey"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("fanfare mckey %s\nexit code %d, standard output %q, standard error %q; want 2, nothing, and one line with %q", c.args, r.code, r.stdout, r.stderr, c.wantText)
		}
	}
}
