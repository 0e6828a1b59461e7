package book

import "github.com/fanfaremq/fanfare/examples/marketdata/itch"

// Apply applies one ITCH message. Types that leave the book alone are counted
// and otherwise ignored. An error means that the message is damaged; the book
// has not changed. Nothing is allocated but room for more orders and levels.
func (b *Book) Apply(msg []byte) error {
	if err := b.apply(msg); err != nil {
		return err
	}
	b.stats.Messages++
	return nil
}

func (b *Book) apply(msg []byte) error {
	if len(msg) == 0 {
		return itch.Check(msg)
	}
	switch itch.Type(msg[0]) {
	case itch.TypeAddOrder, itch.TypeAddOrderMPID:
		var m itch.AddOrder
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Add(m.Ref, m.Side, m.Price, m.Shares)
	case itch.TypeOrderExecuted:
		var m itch.OrderExecuted
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Execute(m.Ref, m.Shares)
	case itch.TypeOrderExecutedPrice:
		var m itch.OrderExecutedPrice
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Execute(m.Ref, m.Shares)
	case itch.TypeOrderCancel:
		var m itch.OrderCancel
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Cancel(m.Ref, m.Shares)
	case itch.TypeOrderDelete:
		var m itch.OrderDelete
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Delete(m.Ref)
	case itch.TypeOrderReplace:
		var m itch.OrderReplace
		if err := m.Parse(msg); err != nil {
			return err
		}
		b.Replace(m.OldRef, m.NewRef, m.Price, m.Shares)
	default:
		return itch.Check(msg)
	}
	return nil
}
