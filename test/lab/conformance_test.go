package lab

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostsInOne makes each NIC of a VM act as a host: packets between them go over the wire, although
// the kernel has both addresses.
const hostsInOne = `
for d in all default eth0 eth1 eth2; do
	c=/proc/sys/net/ipv4/conf/$d
	echo 1 >$c/accept_local; echo 0 >$c/rp_filter; echo 1 >$c/arp_ignore; echo 2 >$c/arp_announce
done
ip rule add pref 100 lookup local; ip rule del pref 0
for i in 0 1 2; do
	ip route add 10.99.0.0/24 dev eth$i table $((50+i)); ip route add 224.0.0.0/4 dev eth$i table $((50+i))
	ip rule add pref $((1+i)) oif eth$i to 10.99.0.$((1+100*i)) lookup local
	ip rule add pref $((11+i)) oif eth$i lookup $((50+i))
done
`

// Statements not met by verbs on Soft-RoCE of Linux 6.1, with a part of the kernel's reason, and
// statements that do not apply to it (docs/rdma.md explains why): all others of the 125 pass.
var (
	verbsNotMet        = map[string]string{"S022": "include/linux/in.h", "S102": "rxe_resp.c"}
	verbsNotApplicable = "S015 S018 S028 S029 S030 S031 S032 S033 S034 S035 S038 S042 S044 S047 S048 S049 S055 S056 S058 S059 S069 S075 S076 S080 " +
		"S087 S091 S094 S098 S107 S110 S111 S112 S113 S114 S115 S116 S117 S118 S119 S120 S124"
)

// The suites of packages rdma and transport run on rdma-core and the kernel's Soft-RoCE, with and
// without the race detector: every statement has its expected outcome.
func TestVerbsConformance(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	for _, race := range []bool{false, true} {
		name, flags, short := "plain", []string{"-tags", "rdma"}, ""
		if race {
			// -short omits S088, 8192 groups: it takes the kernel a minute, and is irrelevant for the race detector
			name, flags, short = "race", append(flags, "-race"), " -test.short"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			BuildTest(t, filepath.Join(dir, "verbs."+name), "./rdma/verbs", true, flags...)
			BuildTest(t, filepath.Join(dir, "ud."+name), "./transport/ud", true, flags...)
			r := Run{
				Dir: dir,
				Command: hostsInOne + "export FANFARE_MUST_RUN=; ./verbs." + name + " -test.v -verbs.ownkernel" + short + "; echo status $?; " +
					"echo ==; ./ud." + name + " -test.v -test.run TestVerbs; echo status $?",
				Options: []string{"--nics", "3", "--mem", "512", "--modules", "dummy"},
				Timeout: 8 * time.Minute,
			}.Do(t).OK(t)
			rdma, transport, _ := strings.Cut(r.Out[1], "==\n")
			checkStatements(t, rdma, race)
			for _, suite := range []string{rdma, transport} {
				if exitStatus(t, suite) != 0 || strings.Contains(suite, "--- FAIL") || strings.Contains(suite, "DATA RACE") {
					t.Errorf("a conformance suite failed:\n%s", suite)
				}
			}
			if !strings.Contains(transport, "\n--- PASS: TestVerbs ") {
				t.Errorf("the suite of the transport did not run:\n%s", transport)
			}
			// Besides statements, two kinds of tests are skipped: those that need a host without devices,
			// and those that TestUnprivileged runs in a process without capabilities.
			var skipped []string
			for _, m := range regexp.MustCompile(`(?m)^ *--- SKIP: (\S+)`).FindAllStringSubmatch(r.Out[1], -1) {
				if !strings.HasPrefix(m[1], "TestConformance/S") {
					skipped = append(skipped, m[1])
				}
			}
			if slices.Sort(skipped); !slices.Equal(skipped, []string{"TestMemoryLimit", "TestNoDevice"}) {
				t.Errorf("unexpected skipped tests: %v", skipped)
			}
		})
	}
}

// checkStatements checks the output of package rdma's suite.
func checkStatements(t *testing.T, output string, short bool) {
	t.Helper()
	missing := strings.Fields(verbsNotApplicable)
	if short {
		missing = append(missing, "S088")
		slices.Sort(missing)
	}
	// S015 is tested only if the kernel is slow to resolve an address.
	if strings.Contains(output, "--- PASS: TestConformance/S015_") {
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == "S015" })
	}
	passed := 125 - len(missing) - len(verbsNotMet)
	row := fmt.Sprintf(`\| verbs linux 6\.1\S* \| %d \| %d \| %d \| 0 \|`, passed, len(missing), len(verbsNotMet))
	table := regexp.MustCompile(`\| verbs linux .*\|`).FindString(output)
	if !regexp.MustCompile(row).MatchString(table) {
		t.Errorf("table row %q, want %s", table, row)
	}
	// A statement has a subtest, which passes or is skipped, or has no subtest and a reason.
	passes := regexp.MustCompile(`(?m)^ *--- PASS: TestConformance/(S\d\d\d)_`).FindAllStringSubmatch(output, -1)
	seen := map[string]bool{}
	for _, p := range passes {
		seen[p[1]] = true
	}
	if len(seen) != passed {
		t.Errorf("%d statements passed as subtests, want %d: %v", len(seen), passed, slices.Sorted(maps.Keys(seen)))
	}
	reasons := map[string]map[string]string{"not applicable": {}, "not met": {}}
	for _, m := range regexp.MustCompile(`(?m)^ +(S\d\d\d) (not applicable|not met): (.*)$`).FindAllStringSubmatch(output, -1) {
		reasons[m[2]][m[1]] = m[3]
		t.Logf("statement %s %s: %s", m[1], m[2], m[3])
	}
	if got := slices.Sorted(maps.Keys(reasons["not applicable"])); !slices.Equal(got, missing) {
		t.Errorf("statements of the RDMA specification not applicable to verbs: %v, want %v", got, missing)
	}
	if got, want := slices.Sorted(maps.Keys(reasons["not met"])), slices.Sorted(maps.Keys(verbsNotMet)); !slices.Equal(got, want) {
		t.Errorf("statements of the RDMA specification not met: %v, want %v", got, want)
	}
	for s, file := range verbsNotMet {
		if !strings.Contains(reasons["not met"][s], file) {
			t.Errorf("%s is not met, but not for the kernel's reason: %q", s, reasons["not met"][s])
		}
	}
	t.Log("| provider | passed | not applicable | not met | failed |\n" + table)
}
