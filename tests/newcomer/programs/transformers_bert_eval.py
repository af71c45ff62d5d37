"""A small BERT with random weights sorts sentences, without gradients."""

import torch
from one_window import recorded
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(config).eval()
tokens = torch.randint(0, 64, (4, 16))


@torch.no_grad()
def step():
    return model(input_ids=tokens).logits.sum()


recorded(step)
