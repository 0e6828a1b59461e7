package report

// otherAlerts has rules for metrics without a log line and a cause.
var otherAlerts = []Alert{
	{Name: "FanfareLossForGood", Expr: `increase(fanfare_gaps_total[5m]) > 0`, Severity: critical, Summary: "{{ $labels.instance }} lost messages permanently: {{ $labels.cause }}", Description: "Each gap was reported to its subscription. docs/operate/metrics.md has advice for this cause."},
	{Name: "FanfareSlowReader", Expr: `avg_over_time(fanfare_subscriber_holds[2m]) > 0.2 or fanfare_subscriber_released == 1`, For: "30s", Severity: warning, Summary: "{{ $labels.subscriber }} reads too slowly for the publishers of {{ $labels.instance }}", Description: "It blocks them, or they no longer wait for it and it will have gaps. Its own log names the subscription or the handler."},
	{Name: "FanfareNotTrusted", Expr: `increase(fanfare_refused_messages_total[5m]) > 0`, Severity: critical, Summary: "{{ $labels.instance }} refuses messages on topics for which their publishers are not trusted", Description: "The log names the publisher and the topic. Add a line for its key to the file of trust=, or find out where it runs."},
	{Name: "FanfareNoKeyValid", Expr: `increase(fanfare_seal_unsealed_packets_total[5m]) > 0`, Severity: critical, Summary: "{{ $labels.instance }} sends nothing: no key of its keyring is valid", Description: "Add a key that is valid now (fanfare key rotate), and check the clock of its host. The log has the times without a valid key."},
}
