package quickstart

// how defines how a line of a page is run, if it is not run unchanged until it succeeds.
type how struct {
	// as is run instead: shorter, or adapted to the test host.
	as string
	// requires is a background command that the page presumes: as is repeated until it prints says.
	requires string
	// background: it runs in a terminal of its own, until the end of the next command without background.
	background bool
	// wantText must be in the output.
	wantText string
	// codes are permitted exit codes besides 0.
	codes []int
}

// testBus is a process to inspect.
const testBus = "fanfare sub -t 'udp://?iface=lo' md.looked"

// shortRun makes a measurement short.
const shortRun = " -runs 1 -seconds 0.05 -q"

// documents are the lines of pages with special treatment: all others run unchanged.
var documents = map[string]map[string]how{
	"README.md": {
		"go build -o hello ./examples/hello":         {as: `go build -o "$GOBIN/hello" ./examples/hello`},
		"./hello":                                    {as: "hello", background: true, wantText: "good morning"},
		"./hello good morning":                       {as: "hello good morning", wantText: "Publishing"},
		"fanfare sub -t 'udp://?iface=lo' greetings": {background: true, wantText: "hello"},
		"fanfare demo":                               {wantText: "exactly once"},
		"fanfare doctor":                             {wantText: "This host is", codes: []int{1, 3}},
		"fanfare tap -t 'udp://?iface=lo'":           {background: true},
	},
	"docs/quickstart.md": {
		"fanfare sub -t 'udp://?iface=lo' 'md.>'":                                    {background: true, wantText: "5"},
		"fanfare sub -t 'udp://?iface=lo' -faults loss=0.2,seed=7 -n 20000 md.lossy": {background: true, wantText: "repaired"},
		"fanfare sub -t roce://lo -n 5 greetings":                                    {background: true, wantText: "5"},
		"fanfare demo":   {wantText: "exactly once"},
		"fanfare doctor": {wantText: "This host is", codes: []int{1, 3}},
	},
	"docs/guides/state.md": {
		"yes v7 | fanfare pub -t 'udp://?iface=lo' -retain -rate 20 cluster.config": {background: true},
		"fanfare sub -t 'udp://?iface=lo' -from state -n 3 cluster.config":          {wantText: "1 record of state, 0 gaps"},
	},
	"docs/guides/slow-readers.md": {
		"fanfare sub -t 'udp://?iface=lo' -slow latest -behind 100 -until end md.ticks | (sleep 1; tail -n 1)": {background: true, wantText: "lost: subscription read too slowly"},
		"fanfare sub -t 'udp://?iface=lo' -tag record -n 1000 md.tagged":                                       {background: true, wantText: "1000"},
		"fanfare sub -t 'udp://?iface=lo' -name screen -until end md.slow | (sleep 4; wc -l)":                  {background: true, wantText: "has blocked publisher"},
		"seq 2000000 | fanfare pub -t 'udp://?iface=lo' -wait 1 -stall-limit 2s md.slow":                       {wantText: "was released after 2", codes: []int{1}},
	},
	"docs/guides/requests.md": {
		"fanfare reply -t 'udp://?iface=lo' -name lisbon weather.now 'fine in lisbon'":                    {background: true},
		"fanfare reply -t 'udp://?iface=lo' -name oslo -exec 'echo \"rain in oslo, $(cat)\"' weather.now": {background: true},
		"fanfare request -t 'udp://?iface=lo' -replies 0 -wait 2 weather.now today":                       {wantText: "rain in oslo, today"},
	},
	"docs/guides/two-paths.md": {
		"fanfare sub -t 'udp://?iface=lo' -t 'udp://239.21.0.0/16?iface=lo&port=7500' -faults loss=0.3,seed=1 -n 2000 md.legs": {
			background: true, wantText: "received on another leg"},
	},
	"docs/guides/compression.md": {
		"fanfare dict -o quotes.dict quotes.txt":                                                               {wantText: "from 20000 messages"},
		"fanfare sub -t 'udp://?iface=lo' -dict quotes.dict -n 20000 md.quotes":                                {background: true, wantText: "20000 messages"},
		"fanfare pub -t 'udp://?iface=lo' -compress zstd -dict quotes.dict -file quotes.txt -wait 1 md.quotes": {wantText: "compressed to 0.0"},
	},
	"docs/guides/keys.md": {
		"fanfare sub -t 'udp://?iface=lo&keys=group.keys' -n 2 cluster.sealed": {background: true, wantText: "2 messages, 0 gaps"},
		"fanfare key show group.keys":                                          {wantText: "begins in"},
		"fanfare key sign-new desk.key":                                        {wantText: "ed25519:"},
		"fanfare sub -t 'udp://?iface=lo&trust=trust' -n 5 'md.xnas.>'":        {background: true, wantText: "5 messages, 0 gaps"},
	},
	"docs/guides/clouds.md": {
		"fanfare doctor -listen -iface lo": {background: true, wantText: "Testing with"},
		"fanfare doctor -peer 127.0.0.1":   {wantText: "The network is ready", codes: []int{3}},
	},
	"docs/guides/market-data.md": {
		"fanfare sub -t 'udp://?iface=lo&groups=64&map=prefix:2' -n 6 'md.xnas.>'": {background: true, wantText: "6"},
	},
	"docs/guides/cluster.md": {
		"fanfare sub -t 'udp://?iface=lo' -n 3 cluster.cache": {background: true, wantText: "drop user/3"},
		"fanfare sub -t 'udp://?iface=lo' -n 3 'cluster.>'":   {background: true, wantText: "drop user/3"},
	},
	"docs/guides/testing.md": {
		"fanfare sub -t 'udp://?iface=lo' -faults loss=0.1,dup=0.05,reorder=0.1,seed=3 -n 20000 test.lossy": {background: true, wantText: "repaired"},
	},
	"docs/operate/doctor.md": {
		"fanfare doctor": {wantText: "This host is", codes: []int{1, 3}},
	},
	"docs/operate/inspect.md": {
		"fanfare top -once":                   {requires: testBus, wantText: "md.looked"},
		"fanfare top -once -json | jq .total": {requires: testBus, wantText: `"processes": 1`},
		"fanfare ls":                          {requires: testBus, as: "{ fanfare ls -for 100ms || true; }", wantText: "md.looked"},
	},
	"docs/operate/loss.md": {
		"fanfare loss": {requires: testBus, wantText: "Nothing was lost permanently"},
	},
	"docs/operate/metrics.md": {
		"fanfare sub -t 'udp://?iface=lo' -metrics localhost:9464 md.metrics": {background: true},
		"curl -s http://localhost:9464/metrics | grep fanfare_dropped_packets_total": {
			as:       "curl -s --retry 20 --retry-connrefused --retry-delay 1 http://localhost:9464/metrics | grep fanfare_dropped_packets_total",
			wantText: `cause="fabric"`},
	},
	"docs/operate/web.md": {
		"fanfare web": {background: true, wantText: "http://127.0.0.1:9465/"},
	},
	"docs/rdma.md": {
		"fanfare demo": {wantText: "exactly once"},
	},
	"docs/roce.md": {
		"go test ./pubsub -run xxx -bench RoCEBesideUDP -benchtime 100x": {as: "go test ./pubsub -run xxx -bench RoCEBesideUDP -benchtime 1x"},
		"go test ./transport/rocenet -run xxx -bench SendPoll":           {as: "go test ./transport/rocenet -run xxx -bench SendPoll -benchtime 1x"},
		"fanfare bench throughput -transport roce -mtu 2048 -size 1024 -baseline udp -target 0.35": {
			as: "fanfare bench throughput -transport roce -mtu 2048 -size 1024 -baseline udp -target 0.35" + shortRun, codes: []int{1}},
	},
	"docs/hardware.md": {
		"fanfare mckey -t sim://":                                 {wantText: "10 of 10 messages received"},
		"fanfare mckey -t 'sim://?flavor=roce'":                   {wantText: "10 of 10 messages received"},
		"test -x fanfare && ./fanfare doctor -json -iface mlx5_0": {as: "fanfare doctor -json -iface lo", wantText: `"summary"`, codes: []int{1, 3}},
		"bash cmd/fanfare/internal/doctor/testdata/record":        {},
	},
	"docs/testing.md": {
		"go test ./test/sim -run TestSeeds -sim.seed=N -v": {as: "go test ./test/sim -run TestSeeds -sim.seed=7 -v", wantText: "PASS"},
	},
	"docs/performance.md": {
		"go run ./cmd/fanfare bench throughput":                       {as: "fanfare bench throughput" + shortRun, wantText: "msgs/s"},
		"fanfare bench latency -loss 0.01 -publisher-wait park -json": {as: "fanfare bench latency -loss 0.01 -publisher-wait park -json" + shortRun, wantText: `"p99_us"`},
		"fanfare bench latency -rate 500 -loss 0.1":                   {as: "fanfare bench latency -rate 500 -loss 0.1" + shortRun},
		"go test -run '^$' -bench PublishOnly64 ./pubsub":             {as: "go test -run '^$' -bench PublishOnly64 -benchtime 1x ./pubsub", wantText: "PublishOnly64"},
		"fanfare bench throughput -baseline raw -cpuprofile DIR":      {as: "mkdir DIR && fanfare bench throughput -baseline raw -cpuprofile DIR" + shortRun},
		"go tool pprof -top DIR/ours-publish-*.pprof":                 {},
	},
}
