package arch

// packages are all packages with code but those of test/, bottom up: a package may import the leaves, what its row
// names, and nothing else of the module. What it names stands above it. The number is its greatest length in lines;
// it may not grow, and is lowered when the package shrinks.
var packages = []struct {
	name    string
	lines   int
	imports string
}{
	// Leaves, which any package may import: those before rdma.
	{"internal/plural", 37, ""},
	{"pubsub/events", 889, ""},
	{"pubsub/stats", 603, ""},
	{"internal/crc", 154, ""},
	{"internal/gid", 42, ""},
	{"internal/histogram", 134, ""},
	{"internal/report", 353, ""},
	{"internal/lossrecord", 296, ""},
	{"internal/metricserver", 74, ""},
	{"internal/outfile", 145, ""},
	{"internal/prefetch", 26, ""},
	{"internal/ring", 908, ""},
	{"internal/slow", 376, ""},
	{"internal/sys", 1553, ""},
	{"internal/testenv", 718, ""},
	{"internal/uplot", 21, ""},

	// RDMA: verbs, and their providers.
	{"rdma", 1658, ""},
	{"rdma/internal/rocev2/frames", 60, ""},
	{"rdma/verbs/internal/cverbs", 712, ""},
	{"rdma/internal/rocev2", 517, "rdma"},
	{"rdma/internal/soft", 3558, "rdma"},
	{"rdma/rdmatest", 2259, "rdma"},
	{"rdma/verbs", 2900, "rdma rdma/verbs/internal/cverbs"},
	{"rdma/fabric", 1759, "rdma rdma/internal/soft"},
	{"rdma/roce", 3086, "rdma rdma/internal/rocev2 rdma/internal/soft"},

	// The codec, and what the core is made of.
	{"internal/wire", 2132, ""},
	{"internal/compress", 404, "internal/wire"},
	{"internal/dissect", 779, "internal/wire"},
	{"internal/pattern", 412, "internal/wire"},
	{"internal/wiretest", 60, "internal/wire"},

	// Transports.
	{"transport", 526, ""},
	{"transport/internal/grace", 50, ""},
	{"transport/internal/lend", 50, ""},
	{"transport/internal/round", 16, ""},
	{"transport/internal/urlopt", 122, ""},
	{"transport/faulty", 894, "transport transport/internal/..."},
	{"transport/internal/arena", 55, ""},
	{"transport/internal/events", 100, "transport"},
	{"transport/internal/inbox", 226, ""},
	{"transport/internal/multicast", 57, ""},
	{"transport/internal/peers", 125, "transport"},
	{"transport/internal/staging", 67, "transport"},
	{"transport/internal/tally", 85, "transport"},
	{"transport/internal/train", 106, "transport"},
	{"transport/transporttest", 2093, "transport"},
	{"transport/legs", 1120, "transport transport/internal/..."},
	{"transport/mem", 710, "transport transport/internal/..."},
	{"transport/sealed", 2062, "transport transport/internal/..."},
	{"transport/shm", 3494, "transport transport/internal/..."},
	{"transport/ud", 3445, "rdma transport transport/internal/..."},
	{"transport/udp", 3030, "transport transport/internal/..."},
	{"transport/rocenet", 301, "rdma/roce transport transport/internal/... transport/ud"},
	{"transport/sealed/hostile", 171, "transport transport/mem transport/sealed"},
	{"transport/sealed/keyring", 872, "transport/sealed"},
	{"transport/signed", 1487, "internal/pattern internal/wire transport transport/internal/..."},
	{"transport/simnet", 396, "rdma rdma/fabric transport transport/internal/... transport/ud"},
	{"transport/verbsnet", 177, "rdma rdma/verbs transport/internal/... transport/ud"},

	// The core.
	{"reliable", 11641, "internal/pattern internal/wire transport"},
	{"internal/topics", 1531, "internal/pattern internal/wire reliable"},
	{"internal/discovery", 774, "internal/wire reliable"},

	// The engine.
	{"internal/inspect", 1484, ""},
	{"internal/engine", 11588, "internal/discovery internal/pattern internal/topics internal/wire reliable transport " +
		"transport/signed"},
	{"internal/fabricurl", 552, "rdma rdma/fabric rdma/roce rdma/verbs transport transport/mem transport/rocenet transport/shm " +
		"transport/simnet transport/udp transport/verbsnet"},
	{"internal/groupmap", 334, "internal/pattern internal/wire"},
	{"test/sim", 6669, "internal/compress internal/discovery internal/pattern internal/topics internal/wire reliable transport"},

	// The API.
	{"pubsub", 4042, "internal/compress internal/engine internal/fabricurl internal/groupmap internal/inspect " +
		"internal/pattern internal/topics internal/wire reliable transport transport/faulty " +
		"transport/legs transport/sealed transport/sealed/keyring transport/signed transport/udp"},
	{"pubsub/metrics", 567, "pubsub"},

	// The bench.
	{"bench/worker", 1605, ""},
	{"bench/contenders", 1367, "bench/worker pubsub pubsub/events pubsub/metrics"},
	{"bench", 2483, "bench/contenders bench/worker internal/inspect pubsub transport/mem transport/shm"},
	{"bench/compression", 192, "bench internal/compress internal/wire reliable transport"},
	{"bench/report", 291, "bench"},

	// The command.
	{"cmd/fanfare/internal/faults", 3, ""},
	{"cmd/fanfare/internal/shellword", 15, ""},
	{"cmd/fanfare/internal/doctor", 1028, "cmd/fanfare/internal/shellword rdma rdma/verbs transport/shm"},
	{"cmd/fanfare/internal/doctor/peer", 1644, "cmd/fanfare/internal/doctor"},
	{"cmd/fanfare/internal/tap", 2088, "internal/compress internal/dissect internal/wire rdma/roce transport"},
	{"cmd/fanfare/internal/losses", 1462, "cmd/fanfare/internal/shellword internal/fabricurl internal/inspect internal/pattern pubsub " +
		"transport transport/shm"},
	{"cmd/fanfare/internal/top", 2049, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/web", 947, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/cli", 9668, "bench bench/compression bench/contenders bench/report bench/worker cmd/fanfare/internal/doctor " +
		"cmd/fanfare/internal/doctor/peer cmd/fanfare/internal/losses cmd/fanfare/internal/tap " +
		"cmd/fanfare/internal/top cmd/fanfare/internal/web internal/compress internal/fabricurl " +
		"internal/inspect internal/pattern internal/wire pubsub pubsub/events pubsub/metrics rdma " +
		"rdma/fabric rdma/roce transport transport/faulty transport/mem transport/sealed " +
		"transport/sealed/keyring transport/shm transport/signed transport/simnet transport/udp"},
	{"cmd/fanfare", 10, "cmd/fanfare/internal/cli"},

	// Examples.
	{"examples/marketdata/itch", 421, ""},
	{"examples/marketdata/book", 355, "examples/marketdata/itch"},
	{"examples/marketdata/feed", 507, "examples/marketdata/itch"},
	{"examples/marketdata/report", 274, "examples/marketdata/book"},
	{"examples/hello", 57, "pubsub"},
	{"examples/marketdata", 1562, "examples/marketdata/book examples/marketdata/feed examples/marketdata/itch " +
		"examples/marketdata/report pubsub pubsub/events transport/faulty"},

	// The rest.
	{"contrib/envelope", 121, ""},
	{"docs/pictures", 395, ""},
	{"contrib/wireshark", 122, "internal/dissect internal/wire"},
}
