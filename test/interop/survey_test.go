package interop

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// A survey finds all topics of a Python publisher before anything is published. docs/protocol §9.10.
func TestSurveyOfPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	pub := python(t, ctx, "pub.py", append(net.args("loss=0.05"), append([]string{"--json", "--name", "python", "--wait", "1"}, topics...)...)...)
	pub.until(ofType("ready"), nil)
	bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05"})
	survey, err := bus.Survey()
	if err != nil {
		t.Fatal(err)
	}
	defer survey.Close()
	for {
		list, err := survey.Topics()
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Topics) == len(topics) && list.Incomplete == 0 {
			for _, x := range list.Topics {
				if len(x.Publishers) != 1 || x.Publishers[0].Name != "python" {
					t.Errorf("topic %+v, want python as its only publisher", x)
				}
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("list %+v does not reach the wanted topics", list)
		}
		time.Sleep(time.Millisecond)
	}
}
