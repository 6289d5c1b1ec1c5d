package telemetry_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/telemetry"
)

const operateDir = "../../docs/operate"

// metricRow matches a row of the table of metrics: name, labels, meaning.
var metricRow = regexp.MustCompile("(?m)^\\| `(fleet_\\w+)` \\| ([^|]*?) ?\\| .+ \\|$")

// TestMetricsAreDocumented checks that the documentation lists exactly the metrics of the server, with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(operateDir, "monitoring.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	for _, m := range telemetry.Metrics() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		require.Contains(t, rows, m.Name)
		require.Equal(t, labels, rows[m.Name], m.Name)
		delete(rows, m.Name)
	}
	require.Empty(t, rows, "the documentation must list only metrics that exist")
}
