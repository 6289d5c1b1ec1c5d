package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newWebhook() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "webhook",
		Aliases: []string{"webhooks"},
		Short:   "Send events to a URL, such as a chat or a CI system",
		Long: `A webhook sends events of your agents and tasks to a URL, signed as Standard Webhooks.
They have ids, names, states and links; the receiver reads more with credentials of its own.

A receiver that does not answer with a status from 200 to 299 gets the same delivery again for
about three days, with growing pauses.`,
		Example: `  fleet webhook create ops https://hooks.example.com/fleet
  fleet webhook test ops
  fleet webhook deliveries ops --status failed
  fleet webhook redeliver ops --since 24h`,
	})
	cmd.AddCommand(
		p.newWebhookCreate(), p.newWebhookSet(), p.newWebhookList(), p.newWebhookRotate(), p.newWebhookTest(), p.newWebhookDeliveries(), p.newWebhookRedeliver(),
		methodCommand(p, &cobra.Command{
			Use: "delete NAME", Short: "Delete a webhook", Example: `  fleet webhook delete ops`,
			Long: `Delete a webhook. What it has not delivered is not sent any more.`,
		}, fleetv1.FleetServiceClient.DeleteWebhook, &fleetv1.DeleteWebhookRequest{}, printMessage[*fleetv1.DeleteWebhookResponse]),
	)
	return cmd
}

const onFlagUsage = "send `EVENTS`: needs_me, all, or types such as task_ended, with commas between"

func (p *program) newWebhookCreate() *cobra.Command {
	req := &fleetv1.CreateWebhookRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "create NAME URL",
		Short: "Create a webhook and print its secret, once",
		Long: `Create a webhook, which sends the events after now. Its secret is printed on standard output
only this once: the receiver verifies the signatures of requests with it.

Without --on, it sends what a person has to look at (needs_me): questions, stalled tasks, and
tasks and agents that have failed.`,
		Example: `  (umask 077; fleet webhook create ops https://hooks.example.com/fleet > ops.secret)
  fleet webhook create ci https://ci.example.com/fleet --on task_ended -l team=web`,
	}, fleetv1.FleetServiceClient.CreateWebhook, req, func(s *session, resp *fleetv1.CreateWebhookResponse) {
		s.printWebhookSecret(resp.GetSecret())
		s.hint("Send a test: fleet webhook test %s", resp.GetWebhook().GetName())
	})
	req.Topics = []fleetv1.Webhook_Topic{fleetv1.Webhook_needs_me}
	cmd.Flags().Var(&topicsFlag{topics: &req.Topics}, "on", onFlagUsage+" (default: needs_me)")
	addSelector(cmd, &req.Selector, "events")
	return cmd
}

// printWebhookSecret prints the secret of a webhook, with a hint that it is not shown again.
func (s *session) printWebhookSecret(secret string) {
	if secret == "" {
		s.hint("The secret was rotated meanwhile, and is not shown again.")
		return
	}
	s.screen.print(secret + "\n")
	s.hint("The secret is shown only this once. Give it to the receiver, which verifies the signatures with it.")
}

func (p *program) newWebhookSet() *cobra.Command {
	req := &fleetv1.UpdateWebhookRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "set NAME",
		Short: "Change, disable or enable a webhook",
		Long: `Change, disable or enable a webhook. Events while it is disabled are not sent later. What
waits for an attempt is sent when it is enabled.`,
		Example: `  fleet webhook set ops --url https://new.example.com/fleet
  fleet webhook set ops --on needs_me,task_ended
  fleet webhook set ops --disabled
  fleet webhook set ops --disabled=false`,
	}, fleetv1.FleetServiceClient.UpdateWebhook, req, printMessage[*fleetv1.UpdateWebhookResponse])
	f := cmd.Flags()
	addOptional(f, &req.Url, "url", "send to `URL`")
	f.Var(&topicsFlag{topics: &req.Topics}, "on", onFlagUsage)
	f.VarP(optionalFlag[string]{&req.Selector}, "selector", "l", "only events of tasks, or else of agents, whose labels match `SELECTOR`; \"\" for all")
	f.BoolFunc("disabled", "send nothing; --disabled=false sends again", func(text string) error {
		disabled, err := strconv.ParseBool(text)
		req.Disabled = &disabled
		return err
	})
	return cmd
}

func (p *program) newWebhookList() *cobra.Command {
	req := &fleetv1.ListWebhooksRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List your webhooks, and what they have not delivered", Example: `  fleet webhook list`,
		Long: `List your webhooks, and how many deliveries of each wait or have failed. Admins see those of
all owners.`,
	}, fleetv1.FleetServiceClient.ListWebhooks, req, func(s *session, resp *fleetv1.ListWebhooksResponse) {
		printList(s, resp.GetWebhooks(), `No webhooks. Create one: fleet webhook create NAME URL`,
			s.nameColumn(), column{"OWNER", "owner"}, column{"EVENTS", webhookTopics}, column{"WAITING", "waiting"}, column{"FAILED", "failed"}, column{"STATE", s.webhookState}, column{"URL", "url"})
	})
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` webhooks (default 100)")
	return cmd
}

func webhookTopics(w *fleetv1.Webhook) string {
	names := make([]string, len(w.GetTopics()))
	for i, t := range w.GetTopics() {
		names[i] = t.String()
	}
	return strings.Join(names, ",")
}

func (s *session) webhookState(w *fleetv1.Webhook) cell {
	switch {
	case w.GetDisabled():
		return cell{oneLine(w.GetDisabledReason()), red}
	case w.GetFailingSince() != nil:
		return cell{"failing for " + s.ageText(w.GetFailingSince()), yellow}
	}
	return cell{"active", green}
}

func (p *program) newWebhookRotate() *cobra.Command {
	req := &fleetv1.RotateWebhookRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a webhook a new secret, and print it once",
		Long: `Give your webhook a new secret. For a day, each request has a signature with both secrets, so
that the receiver has time to change over.`,
		Example: `  fleet webhook rotate ops
  fleet webhook rotate ops --overlap 7d
  fleet webhook rotate ops --now     # somebody else has learnt the old one`,
	}, fleetv1.FleetServiceClient.RotateWebhook, req, func(s *session, resp *fleetv1.RotateWebhookResponse) {
		s.printWebhookSecret(resp.GetSecret())
	})
	addSeconds(cmd, "overlap", "the old secret is valid for `DURATION`, such as 1h or 7d (default 1d)", func(n int32) { req.OverlapSeconds = &n })
	cmd.Flags().BoolFunc("now", "the old secret stops being valid at once", func(text string) error {
		now, err := strconv.ParseBool(text)
		if req.OverlapSeconds = nil; now {
			req.OverlapSeconds = new(int32)
		}
		return err
	})
	cmd.MarkFlagsMutuallyExclusive("overlap", "now")
	return cmd
}

func (p *program) newWebhookTest() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use: "test NAME", Short: "Send a test to a webhook", Example: `  fleet webhook test ops`,
		Long: `Send a test to a webhook, and show what the receiver answers. A test is sent only once.`,
	}, fleetv1.FleetServiceClient.TestWebhook, &fleetv1.TestWebhookRequest{}, func(s *session, resp *fleetv1.TestWebhookResponse) {
		d := resp.GetDelivery()
		s.screen.print(s.card(cardLine{"Delivery", d.GetDeliveryId(), ""}, cardLine{"Status", d.GetStatus(), ""}, cardLine{"Answer", lastAttemptText(d), ""}, cardLine{"Response", lastAttempt(d).GetResponse(), ""}))
	})
}

// lastAttempt returns the last attempt of the delivery, or nil if there was none. The getters of a nil attempt return empty
// values.
func lastAttempt(d *fleetv1.Delivery) *fleetv1.DeliveryAttempt {
	if n := len(d.GetAttempts()); n > 0 {
		return d.GetAttempts()[n-1]
	}
	return nil
}

// lastAttemptText describes the result of the last attempt.
func lastAttemptText(d *fleetv1.Delivery) string {
	a := lastAttempt(d)
	switch {
	case a == nil:
		return ""
	case a.Code != nil:
		return fmt.Sprintf("%d in %d ms", a.GetCode(), a.GetDurationMs())
	}
	return oneLine(a.GetError())
}

func (p *program) newWebhookDeliveries() *cobra.Command {
	req := &fleetv1.ListDeliveriesRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "deliveries NAME",
		Short: "List deliveries of a webhook, and what its receiver answered",
		Long: `List deliveries of a webhook, the newest first, with the outcome of the last attempt. With
-o json, all attempts have the beginning of the response.`,
		Example: `  fleet webhook deliveries ops
  fleet webhook deliveries ops --status failed --since 24h -o json`,
	}, fleetv1.FleetServiceClient.ListDeliveries, req, func(s *session, resp *fleetv1.ListDeliveriesResponse) {
		printList(s, resp.GetDeliveries(), "No deliveries.",
			column{"ID", "delivery_id"}, column{"EVENT", "type"}, column{"AGENT", "agent_name"}, column{"TASK", "task_id"}, column{"AGE", (*fleetv1.Delivery).GetCreatedAt}, column{"STATUS", "status"},
			column{"ATTEMPTS", func(d *fleetv1.Delivery) string { return fmt.Sprint(len(d.GetAttempts())) }}, column{"NEXT", func(d *fleetv1.Delivery) string { return s.timeText(d.GetNextAttemptAt()) }}, column{"ANSWER", lastAttemptText})
	})
	addEnum(cmd, &req.Status, fleetv1.Delivery_Status_name, "status", "only deliveries with `STATUS`: waiting, delivered or failed")
	p.addTime(cmd, &req.Since, "since", "only deliveries of the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` deliveries (default 50)")
	return cmd
}

func (p *program) newWebhookRedeliver() *cobra.Command {
	req := &fleetv1.RedeliverRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "redeliver NAME",
		Short: "Send deliveries of a webhook again",
		Long: `Send deliveries of a webhook again: with --delivery that one, with --since those that the receiver
has not accepted. They keep their ids, so that the receiver can tell that it has them already.`,
		Example: `  fleet webhook redeliver ops --since 24h
  fleet webhook redeliver ops --delivery msg_0f3c6a51a3f2b6d0c5b5a0a3f6f6e9d1`,
	}, fleetv1.FleetServiceClient.Redeliver, req, func(s *session, resp *fleetv1.RedeliverResponse) {
		printMessage(s, resp)
		if resp.GetMore() {
			s.hint("There are more: call it again.")
		}
	})
	cmd.Flags().StringVar(&req.DeliveryId, "delivery", "", "the delivery with this `ID`")
	p.addTime(cmd, &req.Since, "since", "those of the last `DURATION`, such as 24h, or since a time such as 2026-11-01, that were not accepted")
	cmd.MarkFlagsOneRequired("delivery", "since")
	cmd.MarkFlagsMutuallyExclusive("delivery", "since")
	return cmd
}

// topicsFlag is a flag that takes topics. The first use replaces the default.
type topicsFlag struct {
	topics *[]fleetv1.Webhook_Topic
	isSet  bool
}

// String returns "", because the usage text of the flag names the default.
func (f *topicsFlag) String() string { return "" }

func (f *topicsFlag) Type() string { return "EVENTS" }

// Set adds topics by their names, separated by commas.
func (f *topicsFlag) Set(text string) error {
	if !f.isSet {
		f.isSet, *f.topics = true, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		n, ok := fleetv1.Webhook_Topic_value[strings.TrimSpace(name)]
		if !ok || n == 0 {
			return fmt.Errorf("%q is not a type of events: give some of %s", name, orList(enumChoices(fleetv1.Webhook_Topic_name)))
		}
		*f.topics = append(*f.topics, fleetv1.Webhook_Topic(n))
	}
	return nil
}
