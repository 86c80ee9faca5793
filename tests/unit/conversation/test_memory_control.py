"""Requests about memory itself: the sentences that are one, and those that only sound like it."""
# ruff: noqa: RUF001  # letters of other scripts are meant

import pytest

from memcore.conversation.guards import memory_control
from memcore.ledger.conversation.turns import Control

NOT_THIS, FORGET, INCOGNITO = Control.NOT_THIS, Control.FORGET, Control.INCOGNITO

REQUESTS = {
    NOT_THIS: [
        "Please don't save this.",
        "don’t remember this",
        "Do not store what I just told you",
        "My ex called again. Don't keep that in your memory, please.",
        "I'd rather you didn't save any of this",
        "I don't want you to remember that",
        "You must not record this conversation",
        "Can you answer without saving this?",
        "Never store my medical data.",
        "Keep this between us: I am leaving the company.",
        "This is off the record.",
        "Off the record, my boss is terrible",
        "no need to remember this",
        "Bitte speichere das nicht.",
        "Merk dir das bitte nicht",
        "Ich möchte nicht, dass du dir das merkst.",
        "Das soll nicht gespeichert werden",
        "Das bleibt unter uns.",
        "N'enregistre pas ça, s'il te plaît.",
        "Ne retenez pas ce que je viens de dire",
        "Je ne veux pas que tu gardes ça en mémoire",
        "Ça reste entre nous.",
        "No guardes esto, por favor.",
        "no recuerdes lo que te acabo de decir",
        "No quiero que guardes esto",
        "Que esto quede entre nosotros.",
        "Non salvare questo, per favore.",
        "Non ricordare quello che ho detto",
        "Non voglio che tu memorizzi questo",
        "Não guarde isso, por favor.",
        "nao salve essa conversa",
        "Não quero que você se lembre disso",
        "Пожалуйста, не сохраняй это.",
        "Не запоминайте то, что я сказал",
        "Я не хочу, чтобы ты это запоминал",
        "لا تحفظ هذا من فضلك",
        "لا تتذكر ما قلته لك",
        "لا أريد أن تحفظ هذا",
        "これは保存しないでください。",
        "今の話は覚えないで",
        "記録しないでほしい",
        "请不要保存这个。",
        "别记住我刚才说的话",
        "請不要記錄這段對話",
    ],
    FORGET: [
        "Forget that.",
        "Please forget what I said about my sister",
        "I live in Berlin. Forget my address.",
        "can you forget everything I told you?",
        "Forget that I live in Berlin",
        "I want you to forget this",
        "Delete what you know about me",
        "Please erase this from your memory",
        "Vergiss das bitte.",
        "Bitte vergessen Sie, was ich gesagt habe",
        "Lösche alles, was du über mich weißt",
        "Oublie ça.",
        "Oubliez ce que j'ai dit, s'il vous plaît",
        "Efface tout ce que tu sais de moi",
        "Olvida eso.",
        "olvídalo todo, por favor, olvida lo que dije",
        "Borra todo lo que sabes de mí",
        "Dimentica quello che ho detto.",
        "Cancella tutto quello che sai di me",
        "Esqueça o que eu disse.",
        "Apague tudo o que você sabe sobre mim",
        "Забудь это.",
        "Забудьте, что я сказала",
        "Удали всё, что ты знаешь обо мне",
        "انس ما قلته",
        "انسَ هذا من فضلك",
        "احذف كل ما تعرفه عني",
        "さっき言ったことは忘れてください。",
        "それは忘れて",
        "私について知っていることを全部削除して",
        "请忘记我说的话。",
        "忘掉这件事吧",
        "删除你知道的关于我的一切",
    ],
    INCOGNITO: [
        "Go incognito.",
        "please switch to incognito mode",
        "Let's go off the record from now on",
        "Don't remember anything from now on",
        "Forget what I said and go incognito",
        "Geh bitte in den Inkognito-Modus.",
        "Ab jetzt nichts mehr speichern",
        "Passe en mode incognito",
        "Passe en mode privé",
        "Activa el modo incógnito, por favor.",
        "Vai in incognito",
        "Entra no modo anônimo",
        "Перейди в режим инкогнито.",
        "انتقل إلى وضع التخفي",
        "シークレットモードにして",
        "请切换到无痕模式",
        "这段话之后进入隐身模式",
    ],
}

#: Sentences with the same words that ask nothing of a memory.
OTHERS = [
    "I forgot my keys",
    "Don't forget to send it",
    "Remember that I am allergic to nuts",
    "Please remember this.",
    "Save this for later, please",
    "I don't remember this place",
    "I can't forget what he said to me",
    "Never forget that I love you",
    "Don't forget that my name is Ada",
    "We do not store nuts at home",
    "They don't keep records of patients",
    "My mother doesn't remember my birthday",
    "I always forget names",
    "How do I turn on incognito mode in my browser?",
    "He told me that off the record",
    "Forget the onions, use garlic instead",
    "I will never forget that day",
    "Did you forget my question?",
    "I try to forget my ex",
    "Don't save the file yet",
    "You don't remember me?",
    "What did you keep in mind?",
    "My phone does not save photos anymore",
    "I couldn't record the meeting",
    "Delete the second paragraph",
    "Ich habe meinen Schlüssel vergessen",
    "Vergiss nicht, die Mail zu schicken",
    "Bitte merk dir, dass ich allergisch bin",
    "Ich kann mir Namen nicht merken",
    "Das Programm speichert meine Datei nicht",
    "J'ai oublié mes clés",
    "N'oublie pas d'envoyer le courrier",
    "Souviens-toi que je suis allergique",
    "Je ne me souviens pas de ça",
    "Olvidé mis llaves",
    "No guardé eso",
    "Oublié ce que je voulais dire",
    "No olvides enviarlo",
    "No recuerdo lo que dije",
    "Recuerda que soy alérgico",
    "Ho dimenticato le chiavi",
    "Non dimenticare di mandarlo",
    "Non ricordo quello che ho detto",
    "Esqueci minhas chaves",
    "Não esqueça de enviar",
    "Não me lembro disso",
    "Я забыл ключи",
    "Не забудь отправить письмо",
    "Я не помню это",
    "Запомни, что у меня аллергия",
    "نسيت مفاتيحي",
    "لا تنس أن ترسل الرسالة",
    "لا أتذكر هذا",
    "تذكر أنني أعاني من حساسية",
    "鍵を忘れてしまいました",
    "送るのを忘れないでください",
    "アレルギーがあることを覚えておいて",
    "名前を覚えられない",
    "我忘记带钥匙了",
    "别忘了发给他",
    "请记住我对花生过敏",
    "我不记得这件事",
    "",
]


@pytest.mark.parametrize(("text", "control"), [(text, kind) for kind, texts in REQUESTS.items() for text in texts])
def test_a_request_about_memory_is_heard(text: str, control: Control) -> None:
    assert memory_control(text) is control


@pytest.mark.parametrize("text", OTHERS)
def test_the_same_words_without_a_request_are_left_alone(text: str) -> None:
    assert memory_control(text) is None


@pytest.mark.parametrize("text", ["PLEASE DON'T SAVE THIS!", "please\n  do   not save\tthis", "(don\u2019t save this)"])
def test_case_space_and_marks_do_not_matter(text: str) -> None:
    assert memory_control(text) is NOT_THIS


def test_the_request_that_reaches_furthest_counts() -> None:
    assert memory_control("Don't save this. Forget what I said.") is FORGET
    assert memory_control("Forget that. Go incognito. Don't save this.") is INCOGNITO


def test_a_long_text_is_read_to_its_end() -> None:
    assert memory_control("We talked about the garden. " * 1_000 + "Don't save this.") is NOT_THIS
