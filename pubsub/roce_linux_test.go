package pubsub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// roceRole is set in the environment when this test binary runs itself as a publisher or subscriber.
const roceRole = "FANFARE_TEST_ROCE_ROLE"

// roceMessages is the number of messages of each publisher. With a single subscriber (TestRoCEDamage) it is the same
// with -short, because the test needs enough damaged packets.
func roceMessages(lone bool) int {
	const all = 20_000
	if lone {
		return all
	}
	return fewer(all)
}

// TestRoCERole runs such a process; in a normal test run it does nothing.
func TestRoCERole(t *testing.T) {
	role := strings.Fields(os.Getenv(roceRole))
	if len(role) == 0 {
		return
	}
	what, url, faults := role[0], role[1], role[2]
	away := len(role) == 5 // in a namespace whose interface is added after this process has reported
	if away {
		fmt.Println("here")
		awaitLink(t, role[3])
		testenv.AddAddr(t, role[3], role[4])
		testenv.LinkUp(t, role[3])
		// The namespace and its link end with this process: others still need the link.
		defer func() {
			if !t.Failed() {
				io.Copy(io.Discard, os.Stdin)
			}
		}()
	}
	ctx := testContext(t)
	// On a busy machine a process may not run for seconds. With these limits no process gives up on another because of
	// that, so every gap is an error; only killed ones are given up, long before the linger time ends.
	b := openBus(t, Config{Faults: faults, Silence: 15 * time.Second, RecoveryDeadline: time.Minute, Linger: 2 * time.Minute}, url)
	if what == "sub" {
		roceSubscribe(ctx, t, b, "t.a", "t.b")
		return
	}
	if topic, lone := strings.CutPrefix(what, "sub-to-"); lone {
		roceSubscribe(ctx, t, b, topic)
		return
	}
	topic, held := strings.CutSuffix(what, "-held") // until the test sends a line
	topic, lone := strings.CutSuffix(topic, "-to-one")
	subscribers := 2
	if lone {
		subscribers = 1
	}
	p := publisher(t, b, topic)
	fmt.Println("ready")
	wait(t, ctx, p, subscribers)
	if held {
		fmt.Println("met")
		bufio.NewReader(os.Stdin).ReadString('\n')
	}
	n := roceMessages(lone)
	for i := range n {
		publish(t, ctx, p, simMessage(i))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	st := b.Stats()
	refused := uint64(0)
	for i := range st.Publications {
		refused += st.Publications[i].Malformed
	}
	fmt.Println("done", n, st.Transport.Damaged, refused, b.Capabilities().Checked)
}

// roceSubscribe reads one publisher for each topic until it has all messages. It prints the number of messages, the
// packets refused by the fabric (ICRC) and by the reliable layer (CRC-32C), and whether the fabric claims to protect
// packets.
func roceSubscribe(ctx context.Context, t *testing.T, b *Bus, first string, others ...string) {
	s := subscribe(t, b, first, Topics(others...))
	fmt.Println("ready")
	want := uint64(roceMessages(len(others) == 0) * (1 + len(others)))
	accounts := map[string]*account{}
	total := uint64(0)
	for m, err := range s.Messages(ctx) {
		var gap *GapError
		if errors.As(err, &gap) {
			t.Fatalf("a gap after %d messages, want none: %v", total, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		a := accounts[m.Topic]
		if a == nil {
			a = &account{t: t}
			accounts[m.Topic] = a
		}
		if err := a.take(m, err); err != nil {
			t.Fatal(err)
		}
		if total++; total == want/4 {
			fmt.Println("quarter")
		}
		if total == want {
			break
		}
	}
	st := b.Stats()
	refused := uint64(0)
	for i := range st.Groups {
		refused += st.Groups[i].Damaged
	}
	fmt.Println("done", total, st.Transport.Damaged, refused, b.Capabilities().Checked)
}

func awaitLink(t *testing.T, name string) {
	t.Helper()
	for range 2000 {
		if _, err := os.Stat("/proc/sys/net/ipv4/conf/" + name); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("interface %s does not appear", name)
}

// roceProcess is a process of TestRoCERole.
type roceProcess struct {
	t    *testing.T
	role string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

func startRoCE(t *testing.T, cmd *exec.Cmd, role string) *roceProcess {
	t.Helper()
	cmd.Args = append(cmd.Args[:1], "-test.run=^TestRoCERole$", testenv.TimeLimit(t), fmt.Sprint("-test.short=", testing.Short()))
	cmd.Env = append(os.Environ(), roceRole+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &roceProcess{t, role, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// expect waits for a line that begins with line, and returns it.
func (p *roceProcess) expect(line string) string {
	p.t.Helper()
	var seen []string
	for p.out.Scan() {
		if strings.HasPrefix(p.out.Text(), line) {
			return p.out.Text()
		}
		seen = append(seen, p.out.Text())
	}
	p.t.Fatalf("%s ended before it printed %q:\n%s", p.role, line, strings.Join(seen, "\n"))
	return ""
}

func (p *roceProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // the process may have ended already
		_ = p.cmd.Wait()         // the error says that it was killed
	}
}

// Two publishers and two subscribers, each in its own process, share one address, with loss. The kernel delivers
// unicast datagrams, which carry the NAKs, to the process that opened last. That one is killed: the others continue,
// and no message is missing.
func TestRoCEProcessesShareAnAddress(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	if !testenv.Namespace(t) {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(what string, seed int) *roceProcess {
		p := startRoCE(t, exec.Command(exe), fmt.Sprintf("%s roce://lo?check=udp loss=0.03,seed=%d", what, seed))
		p.expect("ready")
		return p
	}
	sub := start("sub", 1)
	pubs := []*roceProcess{start("t.a-held", 2), start("t.b-held", 3)}
	holder := start("sub", 4)
	// Both publishers know the subscriber that is killed: otherwise they would wait for it forever.
	for _, p := range pubs {
		p.expect("met")
	}
	for _, p := range pubs {
		fmt.Fprintln(p.in, "go")
	}
	sub.expect("quarter")
	holder.kill()
	sub.expect("done")
	for _, p := range pubs {
		p.expect("done")
	}
}

// Two hosts, each a network namespace, with a link between them and loss on both sides: everything arrives.
func TestRoCEHosts(t *testing.T) {
	testenv.Slow(t)
	if testenv.Namespace(t) {
		roceHosts(t, "", "10.9.0.1/24", "10.9.0.2/24")
	}
}

// The same over IPv6, where receivers check the complete ICRC of each datagram without privileges.
func TestRoCEHostsIPv6(t *testing.T) {
	testenv.Slow(t)
	if testenv.Namespace(t) {
		roceHosts(t, "/ff15::20:0/112?check=udp", "fd00:9::1/64", "fd00:9::2/64")
	}
}

func roceHosts(t *testing.T, rest, nearAddr, farAddr string) {
	for i, loss := range []string{"0", "0.1"} {
		near, far := fmt.Sprintf("near%d", i), fmt.Sprintf("far%d", i)
		testenv.AddVeth(t, near, far, 0)
		testenv.AddAddr(t, near, nearAddr)
		testenv.LinkUp(t, near)
		var hosts []*roceProcess
		other := startRoCE(t, testenv.NamespaceCommand(t), fmt.Sprintf("sub roce://%s%s loss=%s,seed=7 %s %s", far, rest, loss, far, farAddr))
		other.expect("here")
		testenv.MoveLink(t, far, other.cmd.Process.Pid)
		other.expect("ready")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for j, what := range []string{"sub", "t.a", "t.b"} {
			p := startRoCE(t, exec.Command(exe), fmt.Sprintf("%s roce://%s%s loss=%s,seed=%d", what, near, rest, loss, j))
			p.expect("ready")
			hosts = append(hosts, p)
		}
		other.expect("done")
		for _, p := range hosts {
			p.expect("done")
		}
		other.in.Close()
		testenv.DelLink(t, near)
	}
}

// A bus that checks the complete ICRC and one that does not receive each other's packets. docs/protocol §17.7.
func TestRoCEChecksMix(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	ctx := testContext(t)
	for _, check := range [][2]string{{"full", "udp"}, {"udp", "full"}} {
		from, to := openBus(t, Config{}, "roce://lo?check="+check[0]), openBus(t, Config{}, "roce://lo?check="+check[1])
		topic := "from." + check[0]
		s := subscribe(t, to, topic)
		p := publisher(t, from, topic)
		if err := p.WaitSubscribers(ctx, 1); err != nil {
			t.Fatalf("from check=%s to check=%s: %v", check[0], check[1], err)
		}
		publish(t, ctx, p, "hello")
		if m, err := s.Next(ctx); err != nil || string(m.Data) != "hello" {
			t.Errorf("from check=%s to check=%s: message %q, error %v, want hello", check[0], check[1], m.Data, err)
		}
	}
}
