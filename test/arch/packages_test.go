package arch

// packages are all packages with code but those of test/, bottom up: a package may import the leaves, what its row
// names, and nothing else of the module. What it names stands above it. The number is its greatest length in lines;
// it may not grow, and is lowered when the package shrinks.
var packages = []struct {
	name    string
	lines   int
	imports string
}{
	// Leaves, which any package may import.
	{"pubsub/events", 908, ""},
	{"pubsub/stats", 603, ""},
	{"internal/crc", 159, ""},
	{"internal/gid", 42, ""},
	{"internal/histogram", 136, ""},
	{"internal/logline", 240, ""},
	{"internal/lossrecord", 298, ""},
	{"internal/metricserver", 75, ""},
	{"internal/outfile", 145, ""},
	{"internal/plural", 37, ""},
	{"internal/prefetch", 27, ""},
	{"internal/ring", 928, ""},
	{"internal/slow", 383, ""},
	{"internal/sys", 1582, ""},
	{"internal/testenv", 725, ""},
	{"internal/uplot", 23, ""},

	// RDMA: verbs, and their providers.
	{"rdma", 1795, ""},
	{"rdma/internal/rocev2/frames", 61, ""},
	{"rdma/verbs/internal/cverbs", 720, ""},
	{"rdma/internal/rocev2", 540, "rdma"},
	{"rdma/internal/soft", 3615, "rdma"},
	{"rdma/rdmatest", 2259, "rdma"},
	{"rdma/verbs", 2946, "rdma rdma/verbs/internal/cverbs"},
	{"rdma/fabric", 1805, "rdma rdma/internal/soft"},
	{"rdma/roce", 3157, "rdma rdma/internal/rocev2 rdma/internal/soft"},

	// The codec, and what the core is made of.
	{"internal/wire", 2181, ""},
	{"internal/compress", 407, "internal/wire"},
	{"internal/dissect", 784, "internal/wire"},
	{"internal/pattern", 423, "internal/wire"},

	// Transports.
	{"transport", 547, ""},
	{"transport/internal/grace", 53, ""},
	{"transport/internal/lend", 52, ""},
	{"transport/internal/round", 16, ""},
	{"transport/internal/urlopt", 125, ""},
	{"transport/faulty", 908, "transport transport/internal/..."},
	{"transport/internal/arena", 58, ""},
	{"transport/internal/events", 102, "transport"},
	{"transport/internal/inbox", 234, ""},
	{"transport/internal/multicast", 58, ""},
	{"transport/internal/peers", 129, "transport"},
	{"transport/internal/staging", 67, "transport"},
	{"transport/internal/tally", 86, "transport"},
	{"transport/internal/train", 112, "transport"},
	{"transport/transporttest", 2113, "transport"},
	{"transport/legs", 1120, "transport transport/internal/..."},
	{"transport/mem", 731, "transport transport/internal/..."},
	{"transport/sealed", 2073, "transport transport/internal/..."},
	{"transport/shm", 3494, "transport transport/internal/..."},
	{"transport/ud", 3524, "rdma transport transport/internal/..."},
	{"transport/udp", 3068, "transport transport/internal/..."},
	{"transport/rocenet", 314, "rdma/roce transport transport/internal/... transport/ud"},
	{"transport/sealed/hostile", 171, "transport transport/mem transport/sealed"},
	{"transport/sealed/keyring", 877, "transport/sealed"},
	{"transport/signed", 1501, "internal/pattern internal/wire transport transport/internal/..."},
	{"transport/simnet", 410, "rdma rdma/fabric transport transport/internal/... transport/ud"},
	{"transport/verbsnet", 183, "rdma rdma/verbs transport/internal/... transport/ud"},

	// The core.
	{"reliable", 11695, "internal/pattern internal/wire transport"},
	{"internal/topics", 1549, "internal/pattern internal/wire reliable"},
	{"internal/discovery", 774, "internal/wire reliable"},

	// The engine.
	{"internal/inspect", 1505, ""},
	{"internal/engine", 11758, "internal/discovery internal/pattern internal/topics internal/wire reliable transport transport/signed"},
	{"internal/fabricurl", 566, "rdma rdma/fabric rdma/roce rdma/verbs transport transport/mem transport/rocenet transport/shm transport/simnet transport/udp transport/verbsnet"},
	{"internal/groupmap", 340, "internal/pattern internal/wire"},
	{"test/sim", 6684, "internal/compress internal/discovery internal/pattern internal/topics internal/wire reliable transport"},

	// The API.
	{"pubsub", 4144, "internal/compress internal/engine internal/fabricurl internal/groupmap internal/inspect internal/pattern internal/topics internal/wire reliable transport transport/faulty transport/legs transport/sealed transport/sealed/keyring transport/signed transport/udp"},
	{"pubsub/metrics", 574, "pubsub"},

	// Tools.

	// The bench.
	{"bench/worker", 1619, ""},
	{"bench/contenders", 1376, "bench/worker pubsub pubsub/events pubsub/metrics"},
	{"bench", 2516, "bench/contenders bench/worker internal/inspect pubsub transport/mem transport/shm"},
	{"bench/compression", 200, "bench internal/compress internal/wire reliable transport"},
	{"bench/report", 300, "bench"},

	// The command.
	{"cmd/fanfare/internal/faults", 4, ""},
	{"cmd/fanfare/internal/shellword", 15, ""},
	{"cmd/fanfare/internal/doctor", 1028, "cmd/fanfare/internal/shellword rdma rdma/verbs transport/shm"},
	{"cmd/fanfare/internal/doctor/peer", 1660, "cmd/fanfare/internal/doctor"},
	{"cmd/fanfare/internal/tap", 2101, "internal/compress internal/dissect internal/wire rdma/roce transport"},
	{"cmd/fanfare/internal/losses", 1502, "cmd/fanfare/internal/shellword internal/fabricurl internal/inspect internal/pattern pubsub transport transport/shm"},
	{"cmd/fanfare/internal/top", 2064, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/web", 947, "cmd/fanfare/internal/losses internal/inspect"},
	{"cmd/fanfare/internal/cli", 9795, "bench bench/compression bench/contenders bench/report bench/worker cmd/fanfare/internal/doctor cmd/fanfare/internal/doctor/peer cmd/fanfare/internal/losses cmd/fanfare/internal/tap cmd/fanfare/internal/top cmd/fanfare/internal/web internal/compress internal/fabricurl internal/inspect internal/pattern internal/wire pubsub pubsub/events pubsub/metrics rdma rdma/fabric rdma/roce transport transport/faulty transport/mem transport/sealed transport/sealed/keyring transport/shm transport/signed transport/simnet transport/udp"},
	{"cmd/fanfare", 11, "cmd/fanfare/internal/cli"},

	// Examples.
	{"examples/marketdata/itch", 432, ""},
	{"examples/marketdata/book", 366, "examples/marketdata/itch"},
	{"examples/marketdata/feed", 529, "examples/marketdata/itch"},
	{"examples/marketdata/report", 278, "examples/marketdata/book"},
	{"examples/hello", 57, "pubsub"},
	{"examples/marketdata", 1596, "examples/marketdata/book examples/marketdata/feed examples/marketdata/itch examples/marketdata/report pubsub pubsub/events transport/faulty"},

	// The rest.
	{"contrib/envelope", 126, ""},
	{"docs/pictures", 398, ""},
	{"contrib/wireshark", 122, "internal/dissect internal/wire"},
}
