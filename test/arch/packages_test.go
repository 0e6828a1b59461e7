package arch

// packages are all packages with code except those of test/, bottom up: a package may import the leaves and the
// packages in its row, which stand above it, and nothing else of the module. The number limits its lines: a multiple of
// 50, lowered when the package shrinks.
var packages = []struct {
	name    string
	lines   int
	imports string
}{
	// Leaves, which any package may import: all before rdma.
	{"internal/plural", 50, ""},
	{"pubsub/events", 900, ""},
	{"pubsub/stats", 650, ""},
	{"internal/crc", 200, ""},
	{"internal/gid", 50, ""},
	{"internal/histogram", 150, ""},
	{"internal/report", 600, ""},
	{"internal/lossrecord", 300, ""},
	{"internal/metricserver", 100, ""},
	{"internal/outfile", 150, ""},
	{"internal/prefetch", 50, ""},
	{"internal/ring", 950, ""},
	{"internal/slow", 400, ""},
	{"internal/sys", 1600, ""},
	{"internal/testenv", 750, ""},
	{"internal/uplot", 50, ""},

	// RDMA: verbs, and their providers.
	{"rdma", 1700, ""},
	{"rdma/internal/rocev2/frames", 100, ""},
	{"rdma/verbs/internal/cverbs", 750, ""},
	{"rdma/internal/rocev2", 550, "rdma"},
	{"rdma/internal/soft", 3600, "rdma"},
	{"rdma/rdmatest", 2250, "rdma"},
	{"rdma/verbs", 2900, "rdma rdma/verbs/internal/cverbs"},
	{"rdma/fabric", 1800, "rdma rdma/internal/soft"},
	{"rdma/roce", 3100, "rdma rdma/internal/rocev2 rdma/internal/soft"},

	// The codec, and components of the core.
	{"internal/wire", 2150, ""},
	{"internal/compress", 450, "internal/wire"},
	{"internal/dissect", 800, "internal/wire"},
	{"internal/pattern", 450, "internal/wire"},
	{"internal/wiretest", 100, "internal/wire"},

	// Transports.
	{"transport", 550, ""},
	{"transport/internal/grace", 50, ""},
	{"transport/internal/lend", 50, ""},
	{"transport/internal/round", 50, ""},
	{"transport/internal/urlopt", 150, ""},
	{"transport/faulty", 900, "transport transport/internal/..."},
	{"transport/internal/arena", 100, ""},
	{"transport/internal/events", 100, "transport"},
	{"transport/internal/inbox", 250, ""},
	{"transport/internal/multicast", 100, ""},
	{"transport/internal/peers", 150, "transport"},
	{"transport/internal/staging", 100, "transport"},
	{"transport/internal/tally", 100, "transport"},
	{"transport/internal/train", 150, "transport"},
	{"transport/transporttest", 2100, "transport"},
	{"transport/legs", 1150, "transport transport/internal/..."},
	{"transport/mem", 750, "transport transport/internal/..."},
	{"transport/sealed", 2100, "transport transport/internal/..."},
	{"transport/shm", 3500, "transport transport/internal/..."},
	{"transport/ud", 3450, "rdma transport transport/internal/..."},
	{"transport/udp", 3050, "transport transport/internal/..."},
	{"transport/rocenet", 350, "rdma/roce transport transport/internal/... transport/ud"},
	{"transport/sealed/hostile", 200, "transport transport/mem transport/sealed"},
	{"transport/sealed/keyring", 900, "transport/sealed"},
	{"transport/signed", 1500, "internal/pattern internal/wire transport transport/internal/..."},
	{"transport/simnet", 400, "rdma rdma/fabric transport transport/internal/... transport/ud"},
	{"transport/verbsnet", 200, "rdma rdma/verbs transport/internal/... transport/ud"},

	// The core.
	{"reliable", 8150, "internal/wire transport"},
	{"internal/topics", 5610, "internal/pattern internal/wire reliable"},
	{"internal/discovery", 800, "internal/wire reliable"},

	// The engine.
	{"internal/inspect", 1500, ""},
	{"internal/engine", 11910, "internal/discovery internal/pattern internal/topics internal/wire reliable transport " +
		"transport/signed"},
	{"internal/fabricurl", 600, "rdma rdma/fabric rdma/roce rdma/verbs transport transport/mem transport/rocenet transport/shm " +
		"transport/simnet transport/udp transport/verbsnet"},
	{"internal/groupmap", 350, "internal/pattern internal/wire"},
	{"test/virtual", 100, ""},
	{"test/sim", 6350, "internal/compress internal/discovery internal/engine internal/pattern internal/topics internal/wire " +
		"reliable test/virtual transport transport/signed"},

	// The API.
	{"pubsub", 3850, "internal/compress internal/engine internal/fabricurl internal/groupmap internal/inspect " +
		"internal/pattern internal/topics internal/wire reliable transport transport/faulty " +
		"transport/legs transport/sealed transport/sealed/keyring transport/signed transport/udp"},
	{"pubsub/metrics", 600, "pubsub"},

	// The bench.
	{"bench/worker", 1600, ""},
	{"bench/contenders", 1400, "bench/worker pubsub pubsub/events pubsub/metrics"},
	{"bench", 2500, "bench/contenders bench/worker internal/inspect pubsub transport/mem transport/shm"},
	{"bench/compression", 200, "bench internal/compress internal/topics internal/wire reliable transport"},
	{"bench/report", 300, "bench"},

	// The command.
	{"cmd/fanfare/internal/faults", 50, ""},
	{"cmd/fanfare/internal/shellword", 50, ""},
	{"cmd/fanfare/internal/doctor", 1050, "cmd/fanfare/internal/shellword rdma rdma/verbs transport/shm"},
	{"cmd/fanfare/internal/doctor/peer", 1650, "cmd/fanfare/internal/doctor"},
	{"cmd/fanfare/internal/tap", 2100, "internal/compress internal/dissect internal/wire rdma/roce transport"},
	{"cmd/fanfare/internal/losses", 1500, "cmd/fanfare/internal/shellword internal/fabricurl internal/inspect internal/pattern pubsub " +
		"transport transport/shm"},
	{"cmd/fanfare/internal/top", 2100, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/web", 950, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/cli", 9700, "bench bench/compression bench/contenders bench/report bench/worker cmd/fanfare/internal/doctor " +
		"cmd/fanfare/internal/doctor/peer cmd/fanfare/internal/losses cmd/fanfare/internal/tap " +
		"cmd/fanfare/internal/top cmd/fanfare/internal/web internal/compress internal/fabricurl " +
		"internal/inspect internal/pattern internal/wire pubsub pubsub/events pubsub/metrics rdma " +
		"rdma/fabric rdma/roce transport transport/faulty transport/mem transport/sealed " +
		"transport/sealed/keyring transport/shm transport/signed transport/simnet transport/udp"},
	{"cmd/fanfare", 50, "cmd/fanfare/internal/cli"},

	// Examples.
	{"examples/marketdata/itch", 450, ""},
	{"examples/marketdata/book", 400, "examples/marketdata/itch"},
	{"examples/marketdata/feed", 550, "examples/marketdata/itch"},
	{"examples/marketdata/report", 300, "examples/marketdata/book"},
	{"examples/hello", 100, "pubsub"},
	{"examples/marketdata", 1600, "examples/marketdata/book examples/marketdata/feed examples/marketdata/itch " +
		"examples/marketdata/report pubsub pubsub/events transport/faulty"},

	// The rest.
	{"contrib/envelope", 150, ""},
	{"docs/pictures", 400, ""},
	{"contrib/wireshark", 150, "internal/dissect internal/wire"},
}
