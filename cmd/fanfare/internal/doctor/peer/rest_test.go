package peer

import (
	"os"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.RunParallel(m)) }
