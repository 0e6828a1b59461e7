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

// roceRole is set in the environment of this test binary when it runs itself
// again as a publisher or subscriber.
const roceRole = "FANFARE_TEST_ROCE_ROLE"

// roceMessages is how many each publisher sends.
const roceMessages = 20_000

// TestRoCERole is what such a process does; by itself it does nothing.
func TestRoCERole(t *testing.T) {
	role := strings.Fields(os.Getenv(roceRole))
	if len(role) == 0 {
		return
	}
	what, url, faults := role[0], role[1], role[2]
	if len(role) == 5 { // in a namespace, whose interface comes when we say that we are there
		fmt.Println("here")
		awaitLink(t, role[3])
		testenv.AddAddr(t, role[3], role[4])
		testenv.LinkUp(t, role[3])
	}
	ctx := testContext(t)
	b := openBus(t, Config{Faults: faults}, url)
	if what == "sub" {
		roceSubscribe(ctx, t, b)
		if len(role) == 5 {
			// With this process its namespace ends, and the wire: others need it still.
			io.Copy(io.Discard, os.Stdin)
		}
		return
	}
	p := publisher(t, b, what)
	fmt.Println("ready")
	if err := p.WaitSubscribers(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for i := range roceMessages {
		if err := p.Publish(ctx, []byte(simMessage(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("done")
}

// roceSubscribe reads two publishers until it has all of both.
func roceSubscribe(ctx context.Context, t *testing.T, b *Bus) {
	s := subscribe(t, b, "t.a", Topics("t.b"))
	fmt.Println("ready")
	accounts := map[string]*account{}
	total := uint64(0)
	for m, err := range s.Messages(ctx) {
		var gap *GapError
		if errors.As(err, &gap) {
			t.Fatalf("a gap after %d messages: %v", total, err)
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
		if total++; total == roceMessages/2 {
			fmt.Println("quarter")
		}
		if total == 2*roceMessages {
			break
		}
	}
	fmt.Println("done", total)
}

func awaitLink(t *testing.T, name string) {
	t.Helper()
	for range 2000 {
		if _, err := os.Stat("/proc/sys/net/ipv4/conf/" + name); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("interface %s does not come", name)
}

// roceProcess is one of them, as seen from the test.
type roceProcess struct {
	t    *testing.T
	role string
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Scanner
}

func startRoCE(t *testing.T, cmd *exec.Cmd, role string) *roceProcess {
	t.Helper()
	cmd.Args = append(cmd.Args[:1], "-test.run=^TestRoCERole$", "-test.timeout=3m")
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

func (p *roceProcess) expect(line string) {
	p.t.Helper()
	var seen []string
	for p.out.Scan() {
		if strings.HasPrefix(p.out.Text(), line) {
			return
		}
		seen = append(seen, p.out.Text())
	}
	p.t.Fatalf("%s ended before it said %q:\n%s", p.role, line, strings.Join(seen, "\n"))
}

func (p *roceProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // killed: it says so
	}
}

// Two publishers and two subscribers in processes of their own share one
// address, with loss. The kernel gives unicast datagrams, which are the repair
// requests, to the one that came last. It is killed: the others go on, and
// nothing is missing.
func TestRoCEProcessesShareAnAddress(t *testing.T) {
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
	pub1, pub2 := start("t.a", 2), start("t.b", 3)
	holder := start("sub", 4)
	sub.expect("quarter")
	holder.kill()
	sub.expect("done")
	pub1.expect("done")
	pub2.expect("done")
}

// Two hosts, each a network namespace, with a wire between them and loss on
// both sides: everything arrives.
func TestRoCEHosts(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	for i, loss := range []string{"0", "0.1"} {
		near, far := fmt.Sprintf("near%d", i), fmt.Sprintf("far%d", i)
		testenv.AddVeth(t, near, far, 0)
		testenv.AddAddr(t, near, "10.9.0.1/24")
		testenv.LinkUp(t, near)
		var hosts []*roceProcess
		other := startRoCE(t, testenv.NamespaceCommand(t), fmt.Sprintf("sub roce://%s loss=%s,seed=7 %s 10.9.0.2/24", far, loss, far))
		other.expect("here")
		testenv.MoveLink(t, far, other.cmd.Process.Pid)
		other.expect("ready")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for j, what := range []string{"sub", "t.a", "t.b"} {
			p := startRoCE(t, exec.Command(exe), fmt.Sprintf("%s roce://%s loss=%s,seed=%d", what, near, loss, j))
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
