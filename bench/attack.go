package bench

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/bench/worker"
)

const (
	// keyAttacked is Fanfare with keys while somebody without them sends hostile packets, and keySpun while somebody
	// takes as much of a processor and sends nothing. Both are held against keySealed.
	keyAttacked, keySpun = "attacked", "beside-spin"
	// attackSeconds is how long a run with an attack is at least: the attacker sees some packets first, and
	// makes its own of them.
	attackSeconds = 1
)

// Attacker says whether somebody attacks, and where he runs.
type Attacker string

const (
	AttackerNone Attacker = "" // nobody attacks
	// AttackerShares shares the processors with publisher and subscribers.
	AttackerShares Attacker = "shares"
	// AttackerApart has a processor for himself, the last: publisher and subscribers have the others in all runs, also
	// while nobody disturbs them.
	AttackerApart Attacker = "apart"
)

// attackVariants are those under attack, and what it is to be held against.
func attackVariants() []variant {
	when := func(s *Settings) bool { return s.Attacker != AttackerNone }
	set := func(a worker.Attack) func(*Settings, *worker.Spec) {
		return func(_ *Settings, w *worker.Spec) { w.Sealed, w.Attack = true, a }
	}
	return []variant{{keyAttacked, when, set(worker.AttackPackets)}, {keySpun, when, set(worker.AttackSpin)}}
}

// processorsOf are those that a role has with AttackerApart.
func processorsOf(role worker.Role) ([]int, error) {
	all, err := worker.Processors()
	if err == nil && len(all) < 2 {
		err = errors.New("there is one processor, and two are needed")
	}
	if err != nil {
		return nil, fmt.Errorf("-attack-apart: %w: leave it out, with -attack all share the processors", err)
	}
	last := len(all) - 1
	if role == worker.RoleAttack {
		return all[last:], nil
	}
	return all[:last], nil
}

func (s *Settings) checkAttack() error {
	switch {
	case s.Attacker == AttackerNone:
		return nil
	case s.Attacker != AttackerShares && s.Attacker != AttackerApart:
		return fmt.Errorf("an attacker %q is none: %s or %s", s.Attacker, AttackerShares, AttackerApart)
	case s.Transport != "udp" || len(s.Legs) > 0:
		return errors.New("-attack is measured over udp, and one leg: leave -transport and further -t out")
	case s.Many() || s.Split || s.Together:
		return errors.New("-attack is measured with one publisher on one topic, and a process for each subscriber")
	case s.Seconds < attackSeconds:
		return fmt.Errorf("-attack takes runs of %v s and more: -seconds", attackSeconds)
	case s.Stopped > 0:
		return errors.New("-attack and -stopped each disturb the stream in their own way: give one")
	case s.Attacker == AttackerApart:
		_, err := processorsOf(worker.RoleAttack)
		return err
	}
	return nil
}

// checkAttack says whether there was an attack, if there was to be one, and whether every process has refused some of it and
// has believed nothing.
func (o *outcome) checkAttack() error {
	if o.spec.Attack != worker.AttackPackets {
		return nil
	}
	if o.beside.Figures["hostile_packets"] == 0 {
		return errors.New("the attacker came to send nothing: give it more time with -seconds")
	}
	for i, r := range append([]worker.Report{o.pub}, o.subs...) {
		who := "the publisher"
		if i > 0 {
			who = fmt.Sprintf("subscriber %d", i)
		}
		f := r.Figures
		switch again, repairs := f["duplicates"], o.pub.Figures["repairs"]; {
		case f["believed"] > 0:
			return fmt.Errorf("%s has believed %.0f hostile packets", who, f["believed"])
		case i > 0 && again > repairs:
			return fmt.Errorf("%.0f packets came twice to %s, and %.0f repairs were sent: packets that were played back are taken", again, who, repairs)
		case f["refused"] == 0:
			return fmt.Errorf("no hostile packet came to %s, of %.0f that were sent", who, o.beside.Figures["hostile_packets"])
		}
		for _, kind := range refusedKinds {
			if i > 0 && f["refused_"+kind] == 0 {
				return fmt.Errorf("%s has refused none of the hostile packets that are %s", who, kind)
			}
		}
	}
	return nil
}

// refusedKinds are those of which every attack sends many to where messages go.
var refusedKinds = []string{"foreign", "open", "unknown_key", "replayed", "forged"}

// attackMetrics are of who attacks, and of what its packets came to.
var attackMetrics = []metric{
	{"hostile_packets", "hostile-packets", asSum, func(o *outcome) float64 { return o.beside.Figures["hostile_packets"] }},
	{"refused_packets", "refused-packets", asSum, (*outcome).refused},
	{"hostile_per_s", "hostile/s", asSpread, func(o *outcome) float64 {
		return by(o.beside.Figures["hostile_packets"], o.beside.Figures["hostile_s"])
	}},
}

// refused is how many packets publisher and subscribers have refused.
func (o *outcome) refused() float64 {
	n := o.pub.Figures["refused"]
	for _, s := range o.subs {
		n += s.Figures["refused"]
	}
	return n
}

// attackRatios say what is left of the rate under attack: of the undisturbed one with keys, and of the one beside who takes a
// processor and sends nothing.
func (p *Point) attackRatios() {
	rate := func(key string) Row { return p.Row(key, "msgs_per_s") }
	for _, key := range []string{keyAttacked, keySpun} {
		p.addRatio(key, rate(key), rate(keySealed))
	}
	p.addRatio(keyAttacked+"_"+keySpun, rate(keyAttacked), rate(keySpun))
}

// attackColumns are those of a table with an attack.
var attackColumns = join(rateColumns, []column{
	{"hostile/s", false, func(p *Point, who string) string {
		if who != keyAttacked {
			return ""
		}
		return Short(p.Value(who, "hostile_per_s"))
	}},
	{"refused", false, func(p *Point, who string) string {
		if who != keyAttacked {
			return ""
		}
		return Short(p.Value(who, "refused_packets"))
	}},
	figure("CPU s/M", "cpu_s_per_mmsg", "%.3g", 1),
	figure("lost", "lost", "%.0f", 1),
	{"of sealed", false, func(p *Point, who string) string {
		if who != keyAttacked && who != keySpun {
			return ""
		}
		return oursIs(p, who)
	}},
})
